// The container: magic, counts, keys, values, alignment.
#include <gtest/gtest.h>

#include "tests/hostile/hostile_case.h"

namespace engine::test {
namespace {

constexpr std::uint64_t kMax64 = ~std::uint64_t{0};
constexpr std::uint64_t kTwoTo63 = std::uint64_t{1} << 63;
// The entry that is mutated: general.name, which may be any string.
constexpr std::size_t kVictim = 1;

Bytes bytes_of(std::string_view text) {
  Bytes bytes;
  append(bytes, text.data(), text.size());
  return bytes;
}

HostileCase raw(std::string id, std::string text, Detail detail, std::string mentions = {}) {
  text.resize(std::max<std::size_t>(text.size(), 200), ' ');
  return {std::move(id), [text] { return bytes_of(text); }, {detail}, std::move(mentions)};
}

// Where the key of entry i starts in the file.
std::uint64_t position_of_entry(GgufFile file, std::size_t i) {
  file.entries.resize(i);
  file.tensors.clear();
  return file.metadata().size();
}

std::uint64_t bytes_behind_key_size(const GgufFile& file) {
  return file.build().size() - position_of_entry(file, kVictim) - sizeof(std::uint64_t);
}

HostileCase claimed_key_size(std::string id, std::uint64_t size, std::vector<Detail> accepted) {
  return mutated(
      std::move(id), [size](GgufFile& f) { f.entries[kVictim].claimed_key_size = size; },
      std::move(accepted));
}

HostileCase named_key(std::string id, std::string key, Detail detail) {
  return mutated(std::move(id), [key](GgufFile& f) { f.entries[kVictim].key = key; }, {detail});
}

HostileCase value_type(std::string id, std::uint32_t type) {
  return mutated(std::move(id), [type](GgufFile& f) { f.entries[kVictim].type = type; },
                 {Detail::type});
}

// An array that claims `count` elements and has one.
HostileCase array_count(std::string id, gguf::ValueType type, std::uint64_t count,
                        std::vector<Detail> accepted) {
  return mutated(
      std::move(id),
      [=](GgufFile& f) { f.set_raw_array("extra", type, count, Bytes(sizeof(std::uint64_t))); },
      std::move(accepted));
}

HostileCase alignment(std::string id, std::uint32_t value, Detail detail) {
  return mutated(
      std::move(id), [value](GgufFile& f) { f.set("general.alignment", value); }, {detail},
      "general.alignment");
}

std::vector<HostileCase> magic_cases() {
  return {
      {"G01_empty_file", [] { return Bytes(); }, {Detail::trunc}},
      mutated(
          "G04_reversed", [](GgufFile& f) { f.magic = "FUGG"; }, {Detail::magic}, "reverse"),
      mutated("G04_lower_case", [](GgufFile& f) { f.magic = "gguf"; }, {Detail::magic}),
      mutated(
          "G04_ggml", [](GgufFile& f) { f.magic = "GGML"; }, {Detail::magic}, "legacy GGML"),
      mutated(
          "G04_ggjt", [](GgufFile& f) { f.magic = "GGJT"; }, {Detail::magic}, "legacy GGJT"),
      mutated(
          "G04_ggjt_stored", [](GgufFile& f) { f.magic = "tjgg"; }, {Detail::magic}, "GGJT"),
      raw("G05_html", "\n<!DOCTYPE html><html><body>404</body></html>", Detail::magic, "HTML"),
      raw("G05_git_lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
          Detail::magic, "Git LFS"),
      raw("G05_zip", std::string("PK\x03\x04\x14\0", 6), Detail::magic, "ZIP"),
      raw("G05_png", "\x89PNG\r\n\x1A\n", Detail::magic, "PNG"),
      raw("G05_safetensors", std::string("\x80\0\0\0\0\0\0\0{\"a\":{", 14), Detail::magic,
          "safetensors"),
      raw("G05_unknown", "\x01\x02\x03\x04", Detail::magic, "\\x01\\x02\\x03\\x04"),
  };
}

std::vector<HostileCase> header_cases() {
  const auto version = [](std::string id, std::uint32_t v, Detail detail, std::string mentions) {
    return mutated(
        std::move(id), [v](GgufFile& f) { f.version = v; }, {detail}, mentions);
  };
  const auto n_tensors = [](std::string id, std::uint64_t n) {
    return mutated(std::move(id), [n](GgufFile& f) { f.claimed_n_tensors = n; }, {Detail::limit});
  };
  const std::vector<Detail> any_clean = {
      Detail::trunc, Detail::key,   Detail::type,    Detail::limit, Detail::shape,
      Detail::align, Detail::value, Detail::missing, Detail::dup,   Detail::offset};
  const auto shifted_entries = [&](std::string id, std::uint64_t delta) {
    return mutated(
        std::move(id), [delta](GgufFile& f) { f.claimed_n_entries = f.entries.size() + delta; },
        any_clean);
  };
  return {
      version("G06_version_0", 0, Detail::version, "version 0"),
      version("G07_version_1", 1, Detail::version, "version 1"),
      accepted("G08_version_2", [](GgufFile& f) { f.version = 2; }),
      version("G09_version_4", 4, Detail::version, "version 4"),
      version("G09_version_max", 0xFFFFFFFF, Detail::version, "4294967295"),
      version("G10_big_endian", 0x03000000, Detail::endian, "big-endian"),
      n_tensors("G11_n_tensors_max", kMax64),
      n_tensors("G12_n_tensors_2_63", kTwoTo63),
      n_tensors("G13_n_tensors_2_32", std::uint64_t{1} << 32),
      n_tensors("G14_n_tensors_65537", 65'537),
      mutated(
          "G15_n_tensors_one_more", [](GgufFile& f) { f.claimed_n_tensors = f.tensors.size() + 1; },
          any_clean),
      mutated("G16_n_tensors_one_less",
              [](GgufFile& f) { f.claimed_n_tensors = f.tensors.size() - 1; }, {Detail::missing}),
      mutated(
          "G17_no_tensors", [](GgufFile& f) { f.tensors.clear(); }, {Detail::missing},
          "token_embd.weight"),
      mutated("G18_n_entries_max", [](GgufFile& f) { f.claimed_n_entries = kMax64; },
              {Detail::limit}),
      mutated(
          "G19_no_entries", [](GgufFile& f) { f.entries.clear(); }, {Detail::missing},
          "general.architecture"),
      shifted_entries("G20_n_entries_one_more", 1),
      shifted_entries("G20_n_entries_one_less", kMax64),
  };
}

std::vector<HostileCase> key_cases() {
  return {
      named_key("G21_empty_key", "", Detail::key),
      claimed_key_size("G22_key_65536", 65'536, {Detail::limit}),
      claimed_key_size("G23_key_max", kMax64, {Detail::limit}),
      mutated(
          "G24_key_one_beyond_the_end",
          [](GgufFile& f) { f.entries[kVictim].claimed_key_size = bytes_behind_key_size(f) + 1; },
          {Detail::trunc}),
      mutated("G25_key_wraps_to_zero",
              [](GgufFile& f) {
                f.entries[kVictim].claimed_key_size = 0 - position_of_entry(f, kVictim) - 8;
              },
              {Detail::trunc, Detail::limit}),
      named_key("G26_key_with_nul", std::string("general\0name", 12), Detail::key),
      named_key("G26_key_not_utf8", "general.\xC3(", Detail::key),
      named_key("G26_key_with_surrogate", "general.\xED\xA0\x80", Detail::key),
      named_key("G26_key_with_newline", "general.\n", Detail::key),
      named_key("G26_key_with_c1_control", "general.\xC2\x9B", Detail::key),
      mutated(
          "G27_duplicate_key", [](GgufFile& f) { f.entries.push_back(f.entries[kVictim]); },
          {Detail::dup}, "general.name"),
      mutated(
          "G28_duplicate_alignment",
          [](GgufFile& f) {
            f.set("general.alignment", std::uint32_t{32});
            f.entries.push_back(f.entry("general.alignment"));
            f.set("general.alignment", std::uint32_t{64});
          },
          {Detail::dup}, "general.alignment"),
      accepted("G29_65536_distinct_keys",
               [](GgufFile& f) {
                 for (std::uint32_t i = 0; f.entries.size() < 65'536; ++i)
                   f.entries.push_back({"key." + std::to_string(i), 0, Bytes(1)});
               }),
      mutated("G29_65537_distinct_keys",
              [](GgufFile& f) {
                for (std::uint32_t i = 0; f.entries.size() < 65'537; ++i)
                  f.entries.push_back({"key." + std::to_string(i), 0, Bytes(1)});
              },
              {Detail::limit}),
  };
}

// Array of array of … of u8.
Bytes nested_array(std::size_t depth) {
  Bytes bytes;
  for (std::size_t i = 0; i < depth; ++i) {
    append(bytes, static_cast<std::uint32_t>(gguf::ValueType::array));
    append(bytes, std::uint64_t{1});
  }
  append(bytes, static_cast<std::uint32_t>(gguf::ValueType::u8));
  append(bytes, std::uint64_t{0});
  return bytes;
}

HostileCase nested(std::string id, std::size_t depth) {
  return mutated(
      std::move(id),
      [=](GgufFile& f) { f.set_raw("extra", gguf::ValueType::array, nested_array(depth)); },
      {Detail::type}, "array of arrays");
}

// A 200-byte file whose one string claims `size` bytes.
HostileCase lone_string(std::string id, std::uint64_t size, Detail detail) {
  return {std::move(id),
          [size] {
            GgufFile file;
            file.set("text", std::string(140, 'x'));
            file.entry("text").value.clear();
            append_string(file.entry("text").value, std::string(140, 'x'), size);
            return file.build();
          },
          {detail}};
}

std::vector<HostileCase> value_cases() {
  using gguf::ValueType;
  constexpr auto kUnknown = static_cast<ValueType>(99);
  return {
      value_type("G30_type_13", 13),
      value_type("G30_type_99", 99),
      value_type("G30_type_max", 0xFFFFFFFF),
      lone_string("G31_string_of_1_gib", 1u << 30, Detail::trunc),
      lone_string("G32_string_of_2_63", kTwoTo63, Detail::limit),
      nested("G33_array_of_array", 1),
      nested("G34_nested_100000_deep", 100'000),
      array_count("G35_unknown_elements", kUnknown, std::uint64_t{1} << 60, {Detail::type}),
      array_count("G36_u64_array_wraps", ValueType::u64, std::uint64_t{1} << 61, {Detail::limit}),
      array_count("G36_u8_array_beyond_the_end", ValueType::u8, 1u << 30, {Detail::trunc}),
      array_count("G37_string_array_2_60", ValueType::string, std::uint64_t{1} << 60,
                  {Detail::limit}),
      array_count("G37_string_array_beyond_the_end", ValueType::string, 1u << 20, {Detail::trunc}),
      accepted("G38_8_mi_empty_strings",
               [](GgufFile& f) {
                 constexpr std::uint64_t kCount = 8u << 20;
                 f.set_raw_array("extra", ValueType::string, kCount, Bytes(8 * kCount));
               }),
      mutated(
          "G39_bool_of_2",
          [](GgufFile& f) { f.set_raw("extra", ValueType::boolean, {std::byte{2}}); },
          {Detail::value}, "extra"),
      mutated(
          "G39_bool_array_with_255",
          [](GgufFile& f) {
            f.set_raw_array("extra", ValueType::boolean, 2, {std::byte{1}, std::byte{255}});
          },
          {Detail::value}, "extra"),
      mutated("G112_string_above_1_mib",
              [](GgufFile& f) { f.set("tokenizer.chat_template", std::string(2 << 20, ' ')); },
              {Detail::limit}),
  };
}

// Laid out at 32 while claiming 64, with a header that ends where the two disagree.
void misplace_data(GgufFile& file) {
  file.set("general.alignment", std::uint32_t{64});
  std::string filler;
  do {
    file.set("filler", filler += 'x');
  } while (file.metadata().size() % 64 == 0 || file.metadata().size() % 64 > 32);
}

std::vector<HostileCase> alignment_cases() {
  return {
      alignment("G41_alignment_0", 0, Detail::align),
      alignment("G42_alignment_13", 13, Detail::align),
      alignment("G43_alignment_2_31", 1u << 31, Detail::align),
      alignment("G43_alignment_131072", 131'072, Detail::align),
      mutated("G44_alignment_i32",
              [](GgufFile& f) { f.set("general.alignment", std::int32_t{32}); }, {Detail::type}),
      mutated("G44_alignment_string", [](GgufFile& f) { f.set("general.alignment", "32"); },
              {Detail::type}),
      mutated("G44_alignment_u64",
              [](GgufFile& f) { f.set("general.alignment", std::uint64_t{32}); }, {Detail::type}),
      mutated("G44_alignment_array",
              [](GgufFile& f) { f.set_array<std::uint32_t>("general.alignment", {32}); },
              {Detail::type}),
      mutated("G45_alignment_64_data_at_32", misplace_data, {Detail::offset}),
      alignment("G46_alignment_1", 1, Detail::align),
      alignment("G46_alignment_2", 2, Detail::align),
      accepted("G46_alignment_4096",
               [](GgufFile& f) {
                 f.set("general.alignment", std::uint32_t{4096});
                 f.alignment = 4096;
               }),
  };
}

ENGINE_HOSTILE_SUITE(Magic, magic_cases());
ENGINE_HOSTILE_SUITE(Header, header_cases());
ENGINE_HOSTILE_SUITE(Key, key_cases());
ENGINE_HOSTILE_SUITE(Value, value_cases());
ENGINE_HOSTILE_SUITE(Alignment, alignment_cases());

// G02, G03. Each prefix is its own heap block, so that a sanitizer sees one byte too many.
TEST(Prefix, EveryPrefixOfTheMetadataIsTruncated) {
  GgufFile file = tiny_model(gguf::Type::f32, {.n_layers = 2});
  file.set_strings("tokenizer.ggml.tokens", {"a", "bc"});  // short lists: their form is the same
  file.set_array("tokenizer.ggml.scores", std::vector<float>(2));
  file.set_array("tokenizer.ggml.token_type", std::vector<std::int32_t>(2));
  const Bytes metadata = file.metadata();
  for (std::size_t size = 0; size < metadata.size(); ++size) {
    const Bytes prefix(metadata.begin(), metadata.begin() + static_cast<std::ptrdiff_t>(size));
    const Status status = load(std::span(prefix));
    ASSERT_EQ(status.detail(), Detail::trunc) << size << " bytes: " << status.message();
  }
}

}  // namespace
}  // namespace engine::test
