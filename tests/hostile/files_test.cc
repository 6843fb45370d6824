// What lies behind a path: things that are no files, split models, files that fail or change.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "gguf/file_error.h"
#include "gguf/reader.h"
#include "tests/hostile/hostile_case.h"
#include "tests/support/heap_meter.h"
#include "tests/support/random.h"
#include "tests/support/temp_dir.h"

namespace engine::test {
namespace {

// G115: an error of the operating system's, at once.
void expect_io_error(const std::filesystem::path& path) {
  SCOPED_TRACE(path.string().substr(0, 80));
  const auto start = std::chrono::steady_clock::now();
  const Status status = load(path);
  EXPECT_LE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(200));
  EXPECT_EQ(status.code(), Code::io);
  EXPECT_EQ(status.detail(), Detail::io) << status.message();
}

TEST(NoFile, Absent) { expect_io_error("/nonexistent/model.gguf"); }
TEST(NoFile, EmptyPath) { expect_io_error(""); }
TEST(NoFile, Directory) { expect_io_error("/"); }
TEST(NoFile, DevZero) { expect_io_error("/dev/zero"); }
TEST(NoFile, DevRandom) { expect_io_error("/dev/random"); }
TEST(NoFile, LongPath) { expect_io_error(std::string(5000, 'x')); }

TEST(NoFile, PipeWithoutWriter) {
  const TempDir dir;
  const auto path = dir.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect_io_error(path);
}

TEST(NoFile, Socket) {
  const TempDir dir;
  const auto path = dir.path() / "socket";
  sockaddr_un address{.sun_family = AF_UNIX};
  ASSERT_LT(path.string().size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.string().size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  expect_io_error(path);
  ::close(fd);
}

TEST(NoFile, SymlinkLoop) {
  const TempDir dir;
  const auto path = dir.path() / "loop";
  std::filesystem::create_symlink(path, path);
  expect_io_error(path);
}

TEST(NoFile, WithoutPermission) {
  const TempDir dir;
  const auto path = dir.write("model.gguf", tiny_model().build());
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  constexpr uid_t kNobody = 65534;  // root may read everything
  const uid_t user = ::geteuid();
  if (user == 0) {
    ASSERT_EQ(::seteuid(kNobody), 0);
  }
  expect_io_error(path);
  if (user == 0) {
    ASSERT_EQ(::seteuid(user), 0);
  }
}

// G83: 1 GiB of junk that takes no disk.
TEST(SparseFile, JunkBehindTheDataIsNotRead) {
  const TempDir dir;
  const auto path = dir.write("model.gguf", tiny_model().build());
  const auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, size + (1u << 30));
  const HeapMeter heap;
  const auto file = gguf::Reader::open(path);
  ASSERT_TRUE(file) << file.status().message();
  EXPECT_LE(heap.peak_bytes(), 8u << 20);
  ASSERT_EQ(file->warnings().size(), 1u);
  EXPECT_NE(file->warnings()[0].find("1073741824 bytes"), std::string::npos) << file->warnings()[0];
}

// G116: whatever a writer does during the load, the outcome is some clean one.
TEST(ChangingFile, LoadsOrFailsCleanly) {
  const TempDir dir;
  const Bytes bytes = tiny_model().build();
  const std::size_t n_metadata = tiny_model().metadata().size();
  const auto path = dir.write("model.gguf", bytes);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    Random random(1);
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    while (!done) {
      const auto at = random.bits() % n_metadata;
      const auto noise = static_cast<std::byte>(random.below(256));
      (void)!::pwrite(fd, &noise, 1, static_cast<off_t>(at));
      (void)!::pwrite(fd, &bytes[at], 1, static_cast<off_t>(at));
    }
    ::close(fd);
  });
  int n_ok = 0, n_failed = 0;
  for (int round = 0; round < 500; ++round) load(path).ok() ? ++n_ok : ++n_failed;
  done = true;
  writer.join();
  EXPECT_EQ(n_ok + n_failed, 500);
  EXPECT_TRUE(load(path).ok());
}

// G120. The tiny model in three files.
class SplitModel : public ::testing::Test {
 protected:
  static constexpr int kCount = 3;

  SplitModel() {
    const GgufFile whole = tiny_model();
    for (int i = 0; i < kCount; ++i) {
      GgufFile& shard = shards_[i];
      if (i == 0) shard.entries = whole.entries;
      shard.set("split.no", static_cast<std::uint16_t>(i));
      shard.set("split.count", static_cast<std::uint16_t>(kCount));
      shard.set("split.tensors.count", static_cast<std::int32_t>(whole.tensors.size()));
    }
    for (std::size_t i = 0; i < whole.tensors.size(); ++i)
      shards_[i * kCount / whole.tensors.size()].tensors.push_back(whole.tensors[i]);
  }

  static std::string name(int i) { return "tiny-0000" + std::to_string(i + 1) + "-of-00003.gguf"; }
  std::filesystem::path path(int i) const { return dir_.path() / name(i); }
  void write() const {
    for (int i = 0; i < kCount; ++i) dir_.write(name(i), shards_[i].build());
  }
  void expect_failure(Detail detail, const std::string& file_name) const {
    for (int i = 0; i < kCount; ++i) {
      if (!std::filesystem::exists(path(i))) continue;
      const Status status = load(path(i));
      EXPECT_EQ(status.detail(), detail) << status.message();
      EXPECT_NE(status.message().find(file_name), std::string::npos) << status.message();
    }
  }

  TempDir dir_;
  GgufFile shards_[kCount];
};

TEST_F(SplitModel, AnyShardOpensTheSet) {
  write();
  for (int i = 0; i < kCount; ++i) {
    EXPECT_TRUE(load(path(i)).ok()) << load(path(i)).message();
    const auto file = gguf::Reader::open(path(i));
    EXPECT_EQ(file->tensors().size(), tiny_model().tensors.size());
    EXPECT_NE(file->find("gemma3.block_count"), nullptr);
  }
}

TEST_F(SplitModel, TensorsAreReadFromTheirFile) {
  write();
  const auto file = gguf::Reader::open(path(2));
  ASSERT_TRUE(file) << file.status().message();
  for (const FileTensor& expected : tiny_model().tensors) {
    const gguf::Tensor* tensor = file->find_tensor(expected.name);
    ASSERT_NE(tensor, nullptr);
    Bytes data(tensor->n_bytes);
    ASSERT_TRUE(file->read(*tensor, 0, data).ok());
    EXPECT_EQ(data, expected.data) << expected.name;
  }
}

TEST_F(SplitModel, MissingShard) {
  write();
  std::filesystem::remove(path(1));
  expect_failure(Detail::missing, name(1));
}

TEST_F(SplitModel, DuplicateNumber) {
  shards_[2].set("split.no", std::uint16_t{1});
  write();
  expect_failure(Detail::dup, name(2));
}

TEST_F(SplitModel, WrongCount) {
  shards_[1].set("split.count", std::uint16_t{4});
  write();
  const Status status = load(path(0));
  EXPECT_EQ(status.detail(), Detail::value) << status.message();
  EXPECT_NE(status.message().find(name(1)), std::string::npos) << status.message();
  EXPECT_EQ(load(path(1)).detail(), Detail::missing);  // its own name denies its count
}

TEST_F(SplitModel, WrongTensorCount) {
  shards_[0].set("split.tensors.count", std::int32_t{7});
  write();
  expect_failure(Detail::value, "split.tensors.count");
}

TEST_F(SplitModel, SameTensorTwice) {
  shards_[2].tensors.push_back(shards_[0].tensors[0]);
  shards_[0].set("split.tensors.count", static_cast<std::int32_t>(tiny_model().tensors.size() + 1));
  write();
  expect_failure(Detail::dup, "token_embd.weight");
}

TEST_F(SplitModel, CorruptShard) {
  shards_[1].magic = "JUNK";
  write();
  EXPECT_EQ(load(path(0)).detail(), Detail::magic);
  EXPECT_NE(load(path(2)).message().find(name(1)), std::string::npos);
}

TEST_F(SplitModel, KeysOfTheWrongType) {
  shards_[0].set("split.count", std::uint32_t{3});
  write();
  EXPECT_EQ(load(path(0)).detail(), Detail::type);
}

TEST_F(SplitModel, RenamedShard) {
  const auto path = dir_.write("other.gguf", shards_[0].build());
  EXPECT_EQ(load(path).detail(), Detail::missing);
}

TEST_F(SplitModel, FromMemory) {
  EXPECT_EQ(load(std::span<const std::byte>(shards_[0].build())).detail(), Detail::missing);
}

// G121: reading fails at call n.
class FailingSource final : public gguf::Source {
 public:
  FailingSource(std::span<const std::byte> bytes, int n_calls_that_work)
      : bytes_(gguf::memory_source(bytes)), n_left_(n_calls_that_work) {}

  std::uint64_t size() const noexcept override { return bytes_->size(); }
  Status read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (n_left_-- <= 0) return gguf::file_error(Detail::io, "made to fail");
    return bytes_->read(offset, out);
  }

 private:
  std::unique_ptr<const gguf::Source> bytes_;
  mutable int n_left_;
};

TEST(FailingReads, AtEveryCall) {
  GgufFile file = tiny_model();
  file.set("filler", std::string(1 << 20, 'x'));  // so that the metadata takes several reads
  const Bytes bytes = file.build();
  int n = 0;
  for (;; ++n) {
    const Status status = load(std::make_unique<FailingSource>(bytes, n));
    if (status.ok()) break;
    ASSERT_EQ(status.detail(), Detail::io) << status.message();
    ASSERT_LT(n, 100);
  }
  EXPECT_GE(n, 2);
}

TEST(FailingReads, OfTensorData) {
  const Bytes bytes = tiny_model().build();
  const auto file = gguf::Reader::open(std::make_unique<FailingSource>(bytes, 1));
  ASSERT_TRUE(file) << file.status().message();
  std::byte first;
  EXPECT_EQ(file->read(file->tensors()[0], 0, {&first, 1}).detail(), Detail::io);
}

// G121: allocation fails at call n.
TEST(FailingHeap, AtEveryCall) {
  const TempDir dir;
  const auto path = dir.write("model.gguf", tiny_model().build());
  for (std::int64_t n = 0;; ++n) {
    const FailingHeap heap(n);
    const auto file = gguf::Reader::open(path);
    if (!heap.has_failed()) {
      EXPECT_TRUE(file);
      EXPECT_GE(n, 5);
      break;
    }
    ASSERT_FALSE(file);
    ASSERT_EQ(file.status().code(), Code::out_of_memory) << n << ": " << file.status().message();
  }
}

}  // namespace
}  // namespace engine::test
