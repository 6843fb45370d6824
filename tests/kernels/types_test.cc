// Decoding of weight blocks against values that an independent implementation decoded, and the
// formats' packing rules on blocks whose values can be seen.
#include "gguf/types.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/ref/weights.h"
#include "tests/support/model_file.h"

namespace engine::test {
namespace {

std::vector<std::byte> bytes_from_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

TEST(Types, DecodeAsTheReferenceDoes) {
  const nlohmann::json golden =
      nlohmann::json::parse(std::ifstream(golden_file("quant_blocks.json")));
  ASSERT_EQ(golden.size(), 14u);
  for (const nlohmann::json& entry : golden) {
    SCOPED_TRACE(entry["type"].get<std::string>());
    const gguf::TypeTraits* traits = gguf::find_traits(entry["id"].get<std::uint32_t>());
    ASSERT_NE(traits, nullptr);
    EXPECT_EQ(traits->name, entry["type"].get<std::string>());
    // For element-wise types the file names a run of elements as its block.
    EXPECT_EQ(traits->block_bytes * entry["block_elements"].get<std::uint32_t>(),
              traits->block_elements * entry["block_bytes"].get<std::uint32_t>());

    const std::vector<std::byte> bytes = bytes_from_hex(entry["hex"].get<std::string>());
    const auto values = entry["values"].get<std::vector<float>>();
    const op::Matrix row = {traits->type, op::Layout::rows, 1, static_cast<int>(values.size()),
                            bytes.data()};
    const std::vector<float> decoded = ref::decoded_row(row, 0);
    ASSERT_EQ(decoded.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(decoded[i], values[i]) << i;
  }
}

// Decoding rounds once: the products of a block's factors are exact in fp32, only a minimum's sum
// is not.
TEST(Types, ExactRowsAgreeWithDecoding) {
  const nlohmann::json golden =
      nlohmann::json::parse(std::ifstream(golden_file("quant_blocks.json")));
  for (const nlohmann::json& entry : golden) {
    const std::vector<std::byte> bytes = bytes_from_hex(entry["hex"].get<std::string>());
    const int n = static_cast<int>(entry["values"].size());
    const auto type = static_cast<gguf::Type>(entry["id"].get<std::uint32_t>());
    const op::Matrix row = {type, op::Layout::rows, 1, n, bytes.data()};
    const std::vector<double> exact = ref::exact_row(row, 0);
    const std::vector<float> decoded = ref::decoded_row(row, 0);
    for (std::size_t i = 0; i < exact.size(); ++i)
      ASSERT_EQ(static_cast<float>(exact[i]), decoded[i]) << gguf::name(type) << " " << i;
  }
}

TEST(Types, PackedScalesAndMinimums) {
  // Scales 1 2 3 4 and 0x15 0x26 0x37 0x38, minimums 5 6 7 8 and 0x1A 0x2B 0x3C 0x3D.
  const std::uint8_t packed[12] = {0x01 | 0x40, 0x02 | 0x80, 0x03 | 0xC0, 0x04 | 0xC0,
                                   0x05 | 0x40, 0x06 | 0x80, 0x07 | 0xC0, 0x08 | 0xC0,
                                   0xA5,        0xB6,        0xC7,        0xD8};
  const int scales[] = {1, 2, 3, 4, 0x15, 0x26, 0x37, 0x38};
  const int minimums[] = {5, 6, 7, 8, 0x1A, 0x2B, 0x3C, 0x3D};
  for (int j = 0; j < 8; ++j) {
    EXPECT_EQ(gguf::packed_scale(packed, j), scales[j]) << j;
    EXPECT_EQ(gguf::packed_min(packed, j), minimums[j]) << j;
  }
}

TEST(Types, HalvesAndBfloats) {
  EXPECT_EQ(gguf::f32_from_f16(0x3C00), 1.0f);
  EXPECT_EQ(gguf::f32_from_f16(0xC000), -2.0f);
  EXPECT_EQ(gguf::f32_from_f16(0x0001), 0x1p-24f);
  EXPECT_EQ(gguf::f32_from_f16(0x7BFF), 65504.0f);
  EXPECT_EQ(gguf::f32_from_bf16(0x3F80), 1.0f);
  EXPECT_EQ(gguf::f32_from_bf16(0xC040), -3.0f);
}

TEST(Types, UnknownIdsHaveNoTraits) {
  for (const std::uint32_t id : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, 1000u, 0xFFFFFFFFu})
    EXPECT_EQ(gguf::find_traits(id), nullptr) << id;
}

}  // namespace
}  // namespace engine::test
