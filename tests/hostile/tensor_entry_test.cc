// The tensor table: names, dimensions, types, and where the data lies.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/hostile/hostile_case.h"

namespace engine::test {
namespace {

using gguf::Type;

constexpr std::uint64_t kMax64 = ~std::uint64_t{0};
constexpr std::uint64_t kTwoTo31 = std::uint64_t{1} << 31, kTwoTo32 = std::uint64_t{1} << 32;
constexpr std::uint64_t kTwoTo62 = std::uint64_t{1} << 62, kTwoTo63 = std::uint64_t{1} << 63;

std::uint32_t id(Type type) { return static_cast<std::uint32_t>(type); }

HostileCase with_tensor(std::string case_id, FileTensor tensor, std::vector<Detail> accepted,
                        std::string mentions = {}) {
  return mutated(
      std::move(case_id), [tensor](GgufFile& f) { f.tensors.push_back(tensor); },
      std::move(accepted), std::move(mentions));
}

HostileCase named(std::string case_id, std::string name, Detail detail) {
  return with_tensor(std::move(case_id), {.name = std::move(name), .dims = {8}, .data = Bytes(32)},
                     {detail});
}

HostileCase shaped(std::string case_id, std::vector<std::uint64_t> dims, Detail detail,
                   Type type = Type::f32) {
  return with_tensor(std::move(case_id),
                     {.name = "stray", .dims = std::move(dims), .type = id(type)}, {detail},
                     "stray");
}

HostileCase dimensions(std::string case_id, std::uint32_t n_dims) {
  return with_tensor(std::move(case_id),
                     {.name = "stray", .dims = {8}, .data = Bytes(32), .claimed_n_dims = n_dims},
                     {Detail::shape}, "stray");
}

std::vector<HostileCase> name_cases() {
  return {
      named("G47_empty_name", "", Detail::key),
      named("G48_name_of_64", std::string(64, 'x'), Detail::none),
      named("G48_name_of_65", std::string(65, 'x'), Detail::limit),
      named("G49_name_with_nul", std::string("output\0norm", 11), Detail::key),
      named("G49_name_with_path", "../../etc/passwd", Detail::key),
      named("G49_name_not_utf8", "blk.\xFF", Detail::key),
      mutated(
          "G50_duplicate_name", [](GgufFile& f) { f.tensors.push_back(f.tensors.back()); },
          {Detail::dup}, "blk.6.post_ffw_norm.weight"),
  };
}

std::vector<HostileCase> shape_cases() {
  return {
      dimensions("G51_no_dimensions", 0),
      dimensions("G52_five_dimensions", 5),
      dimensions("G53_dimensions_max", 0xFFFFFFFF),
      shaped("G54_zero_dimension", {8, 0}, Detail::shape),
      shaped("G54_zero_row", {0, 8}, Detail::shape),
      shaped("G55_dimension_2_63", {kTwoTo63}, Detail::shape),
      shaped("G55_dimension_minus_1", {kMax64}, Detail::shape),
      shaped("G56_product_wraps_to_zero", {kTwoTo32, kTwoTo32}, Detail::size),
      shaped("G57_product_wraps_to_two", {3, 0x5555555555555556}, Detail::size),
      shaped("G58_product_wraps_negative", {kTwoTo32, kTwoTo31}, Detail::size),
      shaped("G59_bytes_overflow", {std::uint64_t{1} << 61}, Detail::size, Type::f64),
      shaped("G60_row_overflows_before_division", {542551296285575072}, Detail::size, Type::q8_0),
      shaped("G61_padding_would_wrap", {kTwoTo62 - 1}, Detail::size),
      shaped("G62_q8_0_row_of_33", {33}, Detail::shape, Type::q8_0),
      shaped("G62_q4_0_row_of_31", {31}, Detail::shape, Type::q4_0),
      shaped("G62_q4_k_row_of_255", {255}, Detail::shape, Type::q4_k),
  };
}

// A matrix of the model in a type that the file format has (or had) and the engine has not.
HostileCase typed(std::uint32_t type, Detail detail, std::string mentions) {
  return {"G6" + std::string(detail == Detail::type ? "3" : "4") + "_type_" + std::to_string(type),
          [type] {
            GgufFile file = tiny_model(Type::f32, kTinyShape256);
            FileTensor& tensor = file.tensor("blk.2.ffn_up.weight");
            tensor.type = type;
            if (const gguf::TypeTraits* traits = gguf::find_traits(type); traits != nullptr)
              tensor.data.resize(256 * 256 / traits->block_elements * traits->block_bytes);
            return file.build();
          },
          {detail},
          std::move(mentions)};
}

std::vector<HostileCase> type_cases() {
  std::vector<HostileCase> cases;
  for (const std::uint32_t type : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, 99u, 0xFFFFFFFFu})
    cases.push_back(typed(type, Detail::type, std::to_string(type)));
  for (const Type type : {Type::q8_1, Type::q8_k, Type::iq2_xxs, Type::tq1_0, Type::mxfp4,
                          Type::nvfp4, Type::q1_0, Type::q2_0, Type::f64})
    cases.push_back(typed(id(type), Detail::unsupported, std::string(name(type))));
  cases.push_back({"G62_every_runnable_type",
                   [] { return tiny_model(Type::q4_k, kTinyShape256).build(); },
                   {Detail::none}});
  return cases;
}

HostileCase last_offset(std::string case_id, std::function<std::uint64_t(std::uint64_t)> change,
                        Detail detail) {
  return mutated(
      std::move(case_id),
      [change](GgufFile& f) {
        std::uint64_t offset = 0;  // where the last tensor belongs
        for (const FileTensor& t : f.tensors) offset += (t.data.size() + 31) / 32 * 32;
        offset -= f.tensors.back().data.size();
        f.tensors.back().offset = change(offset);
      },
      {detail}, "blk.6.post_ffw_norm.weight");
}

// Two more tensors, 65 bytes at the end of the data and `n_bytes` at `distance` from its start.
HostileCase overlapping(std::string case_id, std::uint64_t distance, std::uint64_t n_bytes) {
  return mutated(
      std::move(case_id),
      [=](GgufFile& f) {
        std::uint64_t end = 0;
        for (const FileTensor& t : f.tensors) end += (t.data.size() + 31) / 32 * 32;
        f.tensors.push_back(
            {.name = "first", .dims = {65}, .type = id(Type::i8), .data = Bytes(65)});
        f.tensors.push_back({.name = "second",
                             .dims = {n_bytes},
                             .type = id(Type::i8),
                             .data = Bytes(n_bytes),
                             .offset = end + distance});
      },
      {Detail::overlap}, "second");
}

HostileCase cut(std::string case_id, std::function<std::size_t(std::size_t)> new_size) {
  return {std::move(case_id),
          [new_size] {
            Bytes bytes = tiny_model().build();
            bytes.resize(new_size(bytes.size()));
            return bytes;
          },
          {Detail::offset},
          "truncated"};
}

std::vector<HostileCase> offset_cases() {
  const std::uint64_t n_last_bytes = tiny_model().tensors.back().data.size();
  return {
      last_offset(
          "G72_offset_max", [](std::uint64_t) { return kMax64; }, Detail::offset),
      last_offset(
          "G73_offset_plus_size_wraps", [=](std::uint64_t) { return 0 - n_last_bytes; },
          Detail::offset),
      last_offset(
          "G74_data_start_plus_offset_wraps", [](std::uint64_t) { return 0 - std::uint64_t{32}; },
          Detail::offset),
      last_offset(
          "G75_one_byte_beyond_the_end", [](std::uint64_t right) { return right + 1; },
          Detail::offset),
      accepted("G76_ends_exactly_at_the_end",
               [](GgufFile& f) {
                 f.set("general.alignment", std::uint32_t{4096});
                 f.alignment = 4096;
                 f.pad_the_end = false;
               }),
      mutated(
          "G77_unaligned_offset", [](GgufFile& f) { f.tensors[3].offset = 4; }, {Detail::align},
          "blk.0.attn_q.weight"),
      overlapping("G78_overlap_by_one_byte", 64, 32),
      overlapping("G79_same_offset", 0, 65),
      overlapping("G80_one_inside_another", 32, 16),
      accepted("G81_other_order",
               [](GgufFile& f) { std::reverse(f.tensors.begin(), f.tensors.end()); }),
      accepted("G81_gaps",
               [](GgufFile& f) {
                 for (FileTensor& tensor : f.tensors) tensor.data.resize(tensor.data.size() + 96);
               }),
      cut("G82_cut_by_one_byte", [](std::size_t size) { return size - 1; }),
      cut("G82_cut_at_half", [](std::size_t size) { return size / 2; }),
      cut("G82_cut_at_a_page", [](std::size_t size) { return size / 4096 * 4096; }),
      cut("G82_no_data_at_all", [](std::size_t) { return tiny_model().metadata().size(); }),
      accepted("G83_junk_behind_the_data", [](GgufFile& f) { f.tail = Bytes(100'000); }),
  };
}

ENGINE_HOSTILE_SUITE(TensorName, name_cases());
ENGINE_HOSTILE_SUITE(TensorShape, shape_cases());
ENGINE_HOSTILE_SUITE(TensorType, type_cases());
ENGINE_HOSTILE_SUITE(TensorOffset, offset_cases());

}  // namespace
}  // namespace engine::test
