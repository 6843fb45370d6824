#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "gguf/reader.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace engine::test {
namespace {

using gguf::Reader;
using gguf::ValueType;

// A file with a value of every type.
GgufFile every_type() {
  GgufFile file;
  file.set("u8", std::uint8_t{200});
  file.set("i8", std::int8_t{-100});
  file.set("u16", std::uint16_t{60'000});
  file.set("i16", std::int16_t{-30'000});
  file.set("u32", std::uint32_t{4'000'000'000});
  file.set("i32", std::int32_t{-2'000'000'000});
  file.set("u64", std::uint64_t{1} << 63);
  file.set("i64", std::int64_t{-1} << 62);
  file.set("f32", 0.5f);
  file.set("f64", 0.1);
  file.set("yes", true);
  file.set("no", false);
  file.set("text", "caf\xC3\xA9");
  file.set("empty", "");
  file.set_array<std::int16_t>("i16s", {1, -2, 3});
  file.set_array<double>("f64s", {0.25});
  file.set_array<bool>("bools", {true, false, true});
  file.set_array<float>("no_floats", {});
  file.set_strings("texts", {"one", "", "three"});
  file.set_strings("no_texts", {});
  return file;
}

// Owns the bytes that its reader reads.
struct Opened {
  explicit Opened(const GgufFile& file) : bytes(file.build()), reader(Reader::open(bytes)) {}
  const Reader* operator->() const { return &*reader; }
  Bytes bytes;
  Result<Reader> reader;
};

template <class T>
void expect_value(const Opened& file, std::string_view key, T expected) {
  const Result<T> value = file->get<T>(key);
  ASSERT_TRUE(value) << value.status().message();
  EXPECT_EQ(*value, expected) << key;
}

template <class T>
void expect_array(const Opened& file, std::string_view key, const std::vector<T>& expected) {
  const Result<std::vector<T>> values = file->get_array<T>(key);
  ASSERT_TRUE(values) << values.status().message();
  EXPECT_EQ(*values, expected) << key;
}

TEST(GgufReader, ValuesOfEveryType) {
  const Opened file(every_type());
  ASSERT_TRUE(file.reader) << file.reader.status().message();
  expect_value(file, "u8", std::uint8_t{200});
  expect_value(file, "i8", std::int8_t{-100});
  expect_value(file, "u16", std::uint16_t{60'000});
  expect_value(file, "i16", std::int16_t{-30'000});
  expect_value(file, "u32", std::uint32_t{4'000'000'000});
  expect_value(file, "i32", std::int32_t{-2'000'000'000});
  expect_value(file, "u64", std::uint64_t{1} << 63);
  expect_value(file, "i64", std::int64_t{-1} << 62);
  expect_value(file, "f32", 0.5f);
  expect_value(file, "f64", 0.1);
  expect_value(file, "yes", true);
  expect_value(file, "no", false);
  expect_value<std::string_view>(file, "text", "caf\xC3\xA9");
  expect_value<std::string_view>(file, "empty", "");
}

TEST(GgufReader, Arrays) {
  const Opened file(every_type());
  ASSERT_TRUE(file.reader);
  expect_array<std::int16_t>(file, "i16s", {1, -2, 3});
  expect_array<double>(file, "f64s", {0.25});
  expect_array<bool>(file, "bools", {true, false, true});
  expect_array<float>(file, "no_floats", {});

  const auto texts = file->get_strings("texts");
  ASSERT_TRUE(texts);
  EXPECT_EQ(texts->size(), 3u);
  const std::vector<std::string_view> expected = {"one", "", "three"};
  EXPECT_TRUE(std::equal(texts->begin(), texts->end(), expected.begin(), expected.end()));
  const auto no_texts = file->get_strings("no_texts");
  ASSERT_TRUE(no_texts);
  EXPECT_TRUE(no_texts->begin() == no_texts->end());
}

TEST(GgufReader, WrongTypesAndMissingKeys) {
  const Opened file(every_type());
  ASSERT_TRUE(file.reader);
  EXPECT_EQ(file->get<std::int32_t>("u32").status().detail(), Detail::type);
  EXPECT_EQ(file->get<std::int16_t>("i16s").status().detail(), Detail::type);
  EXPECT_EQ(file->get_array<std::int16_t>("i16").status().detail(), Detail::type);
  EXPECT_EQ(file->get_array<std::uint16_t>("i16s").status().detail(), Detail::type);
  EXPECT_EQ(file->get_strings("text").status().detail(), Detail::type);
  EXPECT_EQ(file->get<float>("absent").status().detail(), Detail::missing);
  EXPECT_EQ(file->get_array<float>("absent").status().detail(), Detail::missing);
  EXPECT_EQ(file->get_strings("absent").status().detail(), Detail::missing);

  const Status status = file->get<std::int32_t>("u32").status();
  for (const char* part : {"\"u32\"", "as u32", "not as i32"})
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST(GgufReader, FallbackOnlyForAbsentKeys) {
  const Opened file(every_type());
  ASSERT_TRUE(file.reader);
  EXPECT_EQ(*file->get_or<float>("absent", 2.0f), 2.0f);
  EXPECT_EQ(*file->get_or<float>("f32", 2.0f), 0.5f);
  EXPECT_EQ(file->get_or<float>("u32", 2.0f).status().detail(), Detail::type);
}

TEST(GgufReader, MetadataInFileOrder) {
  const GgufFile written = every_type();
  const Opened file(written);
  ASSERT_TRUE(file.reader);
  ASSERT_EQ(file->metadata().size(), written.entries.size());
  for (std::size_t i = 0; i < written.entries.size(); ++i)
    EXPECT_EQ(file->metadata()[i].key, written.entries[i].key);
  const gguf::KeyValue* entry = file->find("bools");
  ASSERT_NE(entry, nullptr);
  EXPECT_TRUE(entry->is_array);
  EXPECT_EQ(entry->type, ValueType::boolean);
  EXPECT_EQ(entry->count, 3u);
  EXPECT_EQ(file->find("bool"), nullptr);
}

TEST(GgufReader, TensorsAndTheirData) {
  const GgufFile written = tiny_model(gguf::Type::q4_0);
  const Opened file(written);
  ASSERT_TRUE(file.reader) << file.reader.status().message();
  ASSERT_EQ(file->tensors().size(), written.tensors.size());
  for (const FileTensor& expected : written.tensors) {
    const gguf::Tensor* tensor = file->find_tensor(expected.name);
    ASSERT_NE(tensor, nullptr) << expected.name;
    EXPECT_EQ(tensor->n_dims, static_cast<int>(expected.dims.size()));
    EXPECT_EQ(tensor->row_elements(), expected.dims[0]);
    EXPECT_EQ(tensor->n_rows(), expected.dims.size() > 1 ? expected.dims[1] : 1);
    EXPECT_EQ(tensor->n_bytes, expected.data.size());
    Bytes data(tensor->n_bytes);
    ASSERT_TRUE(file->read(*tensor, 0, data).ok());
    EXPECT_EQ(data, expected.data) << expected.name;
  }
}

TEST(GgufReader, ReadsPartsOfATensorOnly) {
  const GgufFile written = tiny_model();
  const Opened file(written);
  ASSERT_TRUE(file.reader);
  const gguf::Tensor& tensor = file->tensors()[2];
  Bytes part(5);
  ASSERT_TRUE(file->read(tensor, tensor.n_bytes - 5, part).ok());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), written.tensors[2].data.end() - 5));
  EXPECT_TRUE(file->read(tensor, tensor.n_bytes, {}).ok());
  EXPECT_EQ(file->read(tensor, tensor.n_bytes - 4, part).code(), Code::invalid_argument);
  EXPECT_EQ(file->read(tensor, ~std::uint64_t{0}, part).code(), Code::invalid_argument);
}

TEST(GgufReader, BothVersionsReadAlike) {
  GgufFile written = tiny_model();
  const Opened newer(written);
  written.version = 2;
  const Opened older(written);
  ASSERT_TRUE(newer.reader && older.reader);
  EXPECT_EQ(newer->version(), 3u);
  EXPECT_EQ(older->version(), 2u);
  ASSERT_EQ(newer->tensors().size(), older->tensors().size());
  for (std::size_t i = 0; i < newer->tensors().size(); ++i) {
    EXPECT_EQ(newer->tensors()[i].name, older->tensors()[i].name);
    EXPECT_EQ(newer->tensors()[i].offset, older->tensors()[i].offset);
  }
}

TEST(GgufReader, AlignmentFromTheFileOrTheDefault) {
  GgufFile written = tiny_model();
  EXPECT_EQ(Opened(written)->alignment(), 32u);
  written.set("general.alignment", std::uint32_t{128});
  written.alignment = 128;
  EXPECT_EQ(Opened(written)->alignment(), 128u);
}

TEST(GgufReader, JunkBehindTheDataIsAWarning) {
  GgufFile written = tiny_model();
  EXPECT_TRUE(Opened(written)->warnings().empty());
  written.tail.resize(5);
  const Opened file(written);
  ASSERT_EQ(file->warnings().size(), 1u);
  EXPECT_NE(file->warnings()[0].find("5 bytes"), std::string::npos) << file->warnings()[0];
}

TEST(GgufReader, AFileIsReadLikeItsBytes) {
  const TempDir dir;
  const Bytes bytes = tiny_model().build();
  const auto path = dir.write("tiny.gguf", bytes);
  auto file = Reader::open(path);
  ASSERT_TRUE(file) << file.status().message();
  EXPECT_EQ(file->file_bytes(), bytes.size());

  const Reader moved = std::move(*file);  // views stay valid
  std::filesystem::remove(path);          // and so does the open file
  EXPECT_EQ(*moved.get<std::string_view>("general.name"), "tiny");
  Bytes data(moved.tensors()[0].n_bytes);
  EXPECT_TRUE(moved.read(moved.tensors()[0], 0, data).ok());
  EXPECT_EQ(data, tiny_model().tensors[0].data);
}

TEST(GgufReader, AShrunkFileIsAnError) {
  const TempDir dir;
  const auto path = dir.write("tiny.gguf", tiny_model().build());
  const auto file = Reader::open(path);
  ASSERT_TRUE(file);
  std::filesystem::resize_file(path, 100);
  Bytes data(file->tensors()[0].n_bytes);
  const Status status = file->read(file->tensors()[0], 0, data);
  EXPECT_EQ(status.code(), Code::io);
  EXPECT_NE(status.message().find("shrunk"), std::string::npos) << status.message();
}

TEST(GgufReader, ErrorsNameThePathAsGiven) {
  const TempDir dir;
  GgufFile written = tiny_model();
  written.version = 1;
  const std::string path = dir.write("tiny.gguf", written.build()).string();
  const std::string message = Reader::open(path).status().message();
  EXPECT_EQ(message.rfind(path + ": GGUF version 1", 0), 0u) << message;
  const std::string of_nothing = Reader::open("").status().message();
  EXPECT_NE(of_nothing.find("path"), std::string::npos) << of_nothing;
  EXPECT_NE(of_nothing.find("is empty"), std::string::npos) << of_nothing;
}

TEST(GgufReader, ACutFileSaysHowLongItShouldBe) {
  const Bytes whole = tiny_model().build();
  const std::size_t n_bytes = whole.size() - 1;
  const auto file = Reader::open(std::span(whole).first(n_bytes));
  EXPECT_EQ(file.status().detail(), Detail::offset);
  const std::string& message = file.status().message();
  EXPECT_NE(message.find("at least " + std::to_string(whole.size()) + " bytes"), std::string::npos)
      << message;
  EXPECT_NE(message.find("has " + std::to_string(n_bytes)), std::string::npos) << message;
}

// The second entry lies on another tensor, which is an error as well, but a less telling one.
TEST(GgufReader, ATensorListedTwiceIsADuplicate) {
  GgufFile written = tiny_model();
  FileTensor twice = written.tensors.back();
  twice.offset = 0;
  written.tensors.push_back(twice);
  EXPECT_EQ(Opened(written).reader.status().detail(), Detail::dup);
}

TEST(GgufReader, KeysOfASplitHaveTheirTypesInAWholeFile) {
  for (const char* key : {"split.no", "split.tensors.count"}) {
    GgufFile written = tiny_model();
    written.set(key, "1");
    EXPECT_EQ(Opened(written).reader.status().detail(), Detail::type) << key;
  }
}

TEST(GgufReader, MetadataLargerThanTheFirstRead) {
  GgufFile written = tiny_model();
  std::vector<std::string> texts(30'000, "0123456789");
  written.set_strings("texts", texts);
  written.set("behind", std::uint32_t{7});
  const Opened file(written);
  ASSERT_TRUE(file.reader) << file.reader.status().message();
  const auto stored = file->get_strings("texts");
  ASSERT_TRUE(stored);
  std::size_t n = 0;
  for (const std::string_view text : *stored) n += text == "0123456789";
  EXPECT_EQ(n, texts.size());
  expect_value(file, "behind", std::uint32_t{7});
}

TEST(Printable, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(gguf::printable("caf\xC3\xA9"), "caf\xC3\xA9");
  EXPECT_EQ(gguf::printable("\x1B[2J\n\x7F"), "\\x1B[2J\\x0A\\x7F");
  EXPECT_EQ(gguf::printable("\xC2\x9B"), "\\xC2\\x9B");           // C1 control
  EXPECT_EQ(gguf::printable("\xED\xA0\x80"), "\\xED\\xA0\\x80");  // surrogate
  EXPECT_EQ(gguf::printable("\xC0\x80"), "\\xC0\\x80");           // overlong
  EXPECT_EQ(gguf::printable("a\xF0\x9F\x98"), "a\\xF0\\x9F\\x98");
  EXPECT_EQ(gguf::printable("abcdef", 3), "abc...");
  EXPECT_EQ(gguf::printable("ab\xC3\xA9", 3), "ab...");  // no half characters
}

}  // namespace
}  // namespace engine::test
