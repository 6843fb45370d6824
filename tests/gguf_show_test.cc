// The program gguf-show, run as a user runs it.
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include <string>

#include "tests/support/gguf_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace engine::test {
namespace {

struct Outcome {
  int exit_code;
  std::string output;  // of both streams
};

// `redirection` applies to standard output only: standard error is still seen.
Outcome run(const std::string& arguments, const std::string& redirection = {}) {
  const std::string command = ENGINE_GGUF_SHOW " " + arguments + " 2>&1 " + redirection;
  FILE* pipe = ::popen(command.c_str(), "r");
  Outcome outcome{};
  for (int c; (c = ::fgetc(pipe)) != EOF;) outcome.output.push_back(static_cast<char>(c));
  const int status = ::pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

class GgufShow : public ::testing::Test {
 protected:
  Outcome show(const GgufFile& file, const std::string& redirection = {}) const {
    return run(dir_.write("model.gguf", file.build()).string(), redirection);
  }
  TempDir dir_;
};

TEST_F(GgufShow, MetadataTensorsAndTypes) {
  const Outcome shown = show(tiny_model(gguf::Type::q8_0));
  EXPECT_EQ(shown.exit_code, 0);
  for (const char* part :
       {"GGUF version 3", "general.architecture: string \"gemma3\"", "gemma3.block_count: u32 7",
        "tokenizer.ggml.add_bos_token: bool true", "[\"<pad>\", \"<eos>\"", "512 in all",
        "blk.6.ffn_down.weight", "[64, 32]", "Q8_0", "50 tensors"})
    EXPECT_NE(shown.output.find(part), std::string::npos) << part << "\n" << shown.output;
}

TEST_F(GgufShow, NothingThatATerminalObeys) {
  GgufFile file = tiny_model();
  file.set("general.name", "\x1B]0;title\x07\r\n");
  file.set_strings("texts", {"\x1B[2J"});
  const Outcome shown = show(file);
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_NE(shown.output.find("\\x1B]0;title\\x07\\x0D\\x0A"), std::string::npos);
  for (const char c : shown.output) EXPECT_TRUE(c == '\n' || !(c >= 0 && c < 32)) << int{c};
}

TEST_F(GgufShow, ExitCodes) {
  EXPECT_EQ(run("").exit_code, 2);
  EXPECT_EQ(run("--no-such-flag").exit_code, 2);
  EXPECT_EQ(run("--help").exit_code, 0);
  EXPECT_EQ(run("--version").exit_code, 0);
  EXPECT_EQ(run("/nonexistent.gguf").exit_code, 3);
  GgufFile broken = tiny_model();
  broken.version = 1;
  const Outcome shown = show(broken);
  EXPECT_EQ(shown.exit_code, 3);
  EXPECT_NE(shown.output.find("model.gguf: GGUF version 1"), std::string::npos) << shown.output;
}

TEST_F(GgufShow, ClosedOutputEndsQuietly) {
  const Outcome shown = show(tiny_model(), ">&-");
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_EQ(shown.output, "");
}

TEST_F(GgufShow, FullOutputIsAFailure) {
  const Outcome shown = show(tiny_model(), ">/dev/full");
  EXPECT_EQ(shown.exit_code, 1);
}

}  // namespace
}  // namespace engine::test
