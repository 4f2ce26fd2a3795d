// The command-line tool and the examples, run as people run them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/client_system/cluster.h"

namespace tiercel::test {
namespace {

namespace fs = std::filesystem;

class Tool : public testing::Test {
 protected:
  void SetUp() override {
    auto server = ServerProcess::StartSingle({"--dram", "64mb"});
    ASSERT_TRUE(server.ok()) << server.error().ToString();
    server_ = std::move(server).value();
  }
  Outcome Run(std::vector<std::string> words, bool with_errors = false) const {
    std::vector<std::string> all = {TIERCEL_CLI, "--master", MasterOption(*server_)};
    all.insert(all.end(), words.begin(), words.end());
    return RunProgram(all, with_errors);
  }
  void Write(const fs::path& path, std::string_view text) const {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  static std::string Read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  TempDir dir_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(Tool, PutsAndGetsFilesAndDirectories) {
  const fs::path source = dir_.path() / "source", target = dir_.path() / "target";
  Write(source / "a.txt", "alpha");
  Write(source / "deep/b.bin", std::string(3'000'000, '\7'));
  Write(source / "deep/er/empty", "");
  EXPECT_EQ(Run({"put", source.string(), "--prefix", "x/"}).status, 0);
  EXPECT_EQ(Run({"put", source.string(), "--prefix", "x/"}).status, 0) << "already there is fine";
  EXPECT_EQ(Run({"get", "--prefix", "x/", target.string()}).status, 0);
  for (const char* name : {"a.txt", "deep/b.bin", "deep/er/empty"}) {
    ASSERT_TRUE(fs::exists(target / name)) << name;
    EXPECT_EQ(Read(target / name), Read(source / name));
  }
  EXPECT_EQ(Run({"cat", "x/a.txt", "x/a.txt"}).output, "alphaalpha");
  const fs::path one = dir_.path() / "one";
  EXPECT_EQ(Run({"get", "x/a.txt", one.string()}).status, 0);
  EXPECT_EQ(Read(one), "alpha");
  EXPECT_EQ(Run({"get", "x/a.txt", "-"}).output, "alpha");
  EXPECT_EQ(Run({"ls", "x/deep*"}).output.size(), std::string("x/deep/b.bin\nx/deep/er/empty\n").size());
}

TEST_F(Tool, AGetDoesNotPutAFileInThePlaceOfADevice) {
  const fs::path source = dir_.path() / "source", pipe = dir_.path() / "pipe";
  Write(source, "alpha");
  ASSERT_EQ(Run({"put", "--key", "a", source.string()}).status, 0);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  EXPECT_EQ(Run({"get", "a", pipe.string()}).status, 0);
  EXPECT_TRUE(fs::is_fifo(pipe));
  char text[16] = {};
  EXPECT_EQ(read(reader, text, sizeof(text)), 5);
  EXPECT_STREQ(text, "alpha");
  close(reader);
}

TEST_F(Tool, ExitStatusesTellWhatHappened) {
  const fs::path file = dir_.path() / "f", other = dir_.path() / "g";
  Write(file, "one");
  Write(other, "two");
  EXPECT_EQ(Run({"put", file.string(), "--key", "k"}).status, 0);
  Outcome conflict = Run({"put", other.string(), "--key", "k"}, true);
  EXPECT_EQ(conflict.status, 3);
  EXPECT_THAT(conflict.output, testing::HasSubstr("EXISTS"));
  EXPECT_EQ(Run({"put", other.string(), "--key", "k", "--replace"}).status, 0);
  EXPECT_EQ(Run({"cat", "k"}).output, "two");
  EXPECT_EQ(Run({"exists", "k"}).status, 0);
  EXPECT_EQ(Run({"exists", "k", "none"}).status, 1);
  EXPECT_EQ(Run({"cat", "none"}).status, 1);
  EXPECT_EQ(Run({"stat", "none"}).status, 1);
  EXPECT_EQ(Run({"get", "none", "-"}).status, 1);
  EXPECT_EQ(Run({"get", "--prefix", "none", dir_.path().string()}).status, 1);
  EXPECT_EQ(Run({"rm", "k"}).status, 0);
  EXPECT_EQ(Run({"rm", "k"}).status, 1);
  EXPECT_EQ(Run({"put", (dir_.path() / "absent").string()}).status, 5);
  EXPECT_EQ(Run({}).status, 2);
  EXPECT_EQ(Run({"nonsense"}).status, 2);
  EXPECT_EQ(Run({"put"}).status, 2);
  EXPECT_EQ(Run({"put", "-"}).status, 2);
  EXPECT_EQ(Run({"put", dir_.path().string(), "--key", "k"}).status, 2) << "one key for many files";
  EXPECT_EQ(Run({"put", file.string(), "--key", ""}).status, 2);
  EXPECT_EQ(Run({"rm"}).status, 2);
  EXPECT_EQ(Run({"--transport", "pigeon", "ping"}).status, 2);
  EXPECT_EQ(Run({"ping", "--timeout", "soon"}).status, 2);
  EXPECT_EQ(RunProgram({TIERCEL_CLI, "--master", "unix:/nonexistent/s", "--timeout", "100ms", "ping"}).status, 4);
  EXPECT_EQ(RunProgram({TIERCEL_CLI, "--help"}).status, 0);
}

TEST_F(Tool, RemovesByPrefixAndSaysHowMany) {
  // More keys than it removes at once.
  ClientOptions options;
  options.master = MasterOption(*server_);
  auto client = Client::Connect(options);
  ASSERT_TRUE(client.ok());
  constexpr int kKeys = 1'200;
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE((*client)->Put("many/" + std::to_string(i), "v").ok());
  ASSERT_TRUE((*client)->Put("other", "v").ok());
  Outcome removed = Run({"rm", "--prefix", "many/"}, true);
  EXPECT_EQ(removed.status, 0);
  EXPECT_EQ(removed.output, "1200 removed\n");
  EXPECT_EQ(Run({"ls"}).output, "other\n");
  Outcome none = Run({"rm", "--prefix", "many/"}, true);
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.output, testing::HasSubstr("no key begins like this"));
}

TEST_F(Tool, FailuresAreCountedAndNamedOnce) {
  const fs::path source = dir_.path() / "source";
  Write(source / "a", "1");
  Write(source / "b", "2");
  EXPECT_EQ(Run({"put", source.string()}).status, 0);
  Write(source / "b", "3");
  EXPECT_THAT(Run({"put", source.string()}, true).output, testing::HasSubstr("0 stored, 1 already there, 1 failed"));
  const std::string absent = (dir_.path() / "absent").string();
  EXPECT_EQ(Run({"put", absent}, true).output, "tiercel: " + absent + ": No such file or directory\n");
}

TEST_F(Tool, KeysThatAreNoFilesBelowTheDirectoryAreLeftOut) {
  ClientOptions options;
  options.master = MasterOption(*server_);
  auto client = Client::Connect(options);
  ASSERT_TRUE(client.ok());
  for (const char* key : {"p/../../escape", "p//absolute", "p/fine", "p/", "p/dir/"}) {
    ASSERT_TRUE((*client)->Put(key, "v").ok());
  }
  const fs::path target = dir_.path() / "deep/target";
  EXPECT_EQ(Run({"get", "--prefix", "p/", target.string()}).status, 5);
  EXPECT_EQ(Read(target / "fine"), "v");
  EXPECT_FALSE(fs::exists(dir_.path() / "escape"));
  EXPECT_FALSE(fs::exists("/absolute"));
}

TEST_F(Tool, JsonIsOneValueALine) {
  const fs::path file = dir_.path() / "f";
  Write(file, "12345");
  auto put = nlohmann::json::parse(Run({"--json", "put", file.string()}).output);
  EXPECT_EQ(put["key"], "f");
  EXPECT_EQ(put["outcome"], "stored");
  auto stat = nlohmann::json::parse(Run({"--json", "stat", "f"}).output);
  EXPECT_EQ(stat["size"], 5);
  EXPECT_EQ(stat["version"], put["version"]);
  EXPECT_EQ(stat["replicas"].size(), 1u);
  EXPECT_EQ(nlohmann::json::parse(Run({"--json", "exists", "f"}).output)["exists"], true);
  EXPECT_EQ(nlohmann::json::parse(Run({"--json", "ls"}).output)["key"], "f");
  auto node = nlohmann::json::parse(Run({"--json", "nodes"}).output);
  EXPECT_EQ(node["state"], "serving");
  auto segment = nlohmann::json::parse(Run({"--json", "segments"}).output);
  EXPECT_EQ(segment["tier"], "dram");
  EXPECT_GT(segment["size"], 0);
  EXPECT_GE(nlohmann::json::parse(Run({"--json", "ping"}).output)["micros"], 0);
}

TEST_F(Tool, PasswordsComeFromTheEnvironmentOrAFile) {
  auto locked = ServerProcess::StartSingle({"--dram", "64mb", "--requirepass", "secret"});
  ASSERT_TRUE(locked.ok()) << locked.error().ToString();
  const std::vector<std::string> ping = {TIERCEL_CLI, "--master", MasterOption(**locked), "ping"};
  Outcome refused = RunProgram(ping, true);
  EXPECT_EQ(refused.status, 4);
  EXPECT_THAT(refused.output, testing::HasSubstr("--password-file"));
  EXPECT_EQ(RunProgram(ping, false, {"TIERCEL_PASSWORD=secret"}).status, 0);
  const fs::path file = dir_.path() / "password";
  Write(file, "secret\n");
  std::vector<std::string> by_file = ping;
  by_file.insert(by_file.end() - 1, {"--password-file", file.string()});
  EXPECT_EQ(RunProgram(by_file).status, 0);
}

TEST_F(Tool, ExamplesRun) {
  for (const char* example : {"put_get", "batch", "view", "chain_prefetch"}) {
    Outcome outcome =
        RunProgram({std::string(TIERCEL_EXAMPLES) + "/tiercel-example-" + example, MasterOption(*server_)}, true);
    EXPECT_EQ(outcome.status, 0) << example << ": " << outcome.output;
    std::printf("%s", outcome.output.c_str());
  }
}

}  // namespace
}  // namespace tiercel::test
