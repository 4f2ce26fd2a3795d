// tiercel-dump as a program: what it prints, what it finds, how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/index/history.h"

namespace tiercel::index {
namespace {

namespace fs = std::filesystem;
using core::Record;
using Json = nlohmann::json;
using testing::HasSubstr;

struct Output {
  int status = -1;
  std::string text;  // errors too
};

Output Dump(const std::string& arguments) {
  Output output;
  FILE* out = popen((std::string(TIERCEL_DUMP) + " " + arguments + " 2>&1").c_str(), "re");
  char piece[4096];
  for (size_t got; (got = fread(piece, 1, sizeof(piece), out)) > 0;) output.text.append(piece, got);
  const int status = pclose(out);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

class DumpTest : public testing::Test {
 protected:
  void Write(std::span<const Record> batch) {
    auto index = RocksIndex::Open({.dir = dir_ / "index", .reserve_bytes = 0});
    ASSERT_TRUE(index.ok());
    ASSERT_TRUE((*index)->RaiseGeneration().ok());
    ASSERT_TRUE((*index)->Write(batch).ok());
  }
  TestDir dir_;
};

TEST_F(DumpTest, PrintsEveryRecordAsALine) {
  Record store;
  store.kind = Record::Kind::kStore;
  store.store = 3;
  store.name = "s3";
  store.storage_id = "abc";
  store.host = "h\"1";
  store.incarnation = {0x9f3c20aa12345678};
  Record segment;
  segment.kind = Record::Kind::kSegment;
  segment.store = 3;
  segment.tier = Tier::kSsd;
  segment.place = {2, 41};
  segment.size = 1 << 20;
  segment.name = "zone";
  Record space;
  space.kind = Record::Kind::kNamespace;
  space.name_space = 7;
  space.number = 99;
  Record object;
  object.version = {1099511627777};
  object.name_space = 7;
  object.key = "line\nfeed \"quote\" \xc3\xa9";
  object.size = 10;
  object.sum = 0xabc;
  object.expire_at_ms = 1'700'000'000'000;
  object.replicas.emplace_back().extents.push_back({64, 10});
  object.replicas[0].store = 3;
  object.replicas[0].place = {2, 41};
  object.replicas[0].tier = Tier::kSsd;
  Record binary = object;
  binary.version = {1099511627778};
  binary.key = std::string("\xff\x00\x80", 3);
  Write(std::vector<Record>{store, segment, space, object, binary});

  const Output output = Dump(dir_ / "index");
  EXPECT_EQ(output.status, 0) << output.text;
  std::vector<Json> lines;
  std::istringstream text(output.text);
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  ASSERT_EQ(lines.size(), 7u) << output.text;
  EXPECT_EQ(lines[0], Json::parse(R"({"type":"index","format":1})"));
  EXPECT_EQ(lines[1], Json::parse(R"({"type":"generation","generation":1})"));
  EXPECT_EQ(lines[2], Json::parse(R"({"type":"store","store":3,"name":"s3","storage-id":"abc","host":"h\"1",
                                      "incarnation":"9f3c20aa12345678"})"));
  EXPECT_EQ(lines[3], Json::parse(R"({"type":"segment","store":3,"tier":"ssd","segment":2,"epoch":41,
                                      "size":1048576,"name":"zone"})"));
  EXPECT_EQ(lines[4], Json::parse(R"({"type":"namespace","namespace":7,"floor":99})"));
  EXPECT_EQ(lines[5]["key"], object.key);
  EXPECT_EQ(lines[5]["sum"], "0000000000000abc");
  EXPECT_EQ(lines[5]["expire-at-ms"], 1'700'000'000'000);
  EXPECT_EQ(lines[5]["replicas"],
            Json::parse(R"([{"tier":"ssd","store":3,"segment":2,"epoch":41,"extents":[[64,10]]}])"));
  EXPECT_EQ(lines[6]["key-hex"], "ff0080");
  EXPECT_FALSE(lines[6].contains("key"));
}

TEST_F(DumpTest, ChecksAnIntactIndexAndACopy) {
  History history(5);
  Write(history.Next());
  const Output good = Dump("--check " + (dir_ / "index"));
  EXPECT_EQ(good.status, 0) << good.text;
  EXPECT_THAT(good.text, HasSubstr("intact"));
  {
    auto index = RocksIndex::Open({.dir = dir_ / "index", .reserve_bytes = 0});
    ASSERT_TRUE(index.ok());
    ASSERT_TRUE((*index)->Checkpoint(dir_ / "copy").ok());
  }
  EXPECT_EQ(Dump(dir_ / "copy").text, Dump(dir_ / "index").text);
  EXPECT_EQ(Dump("--check " + (dir_ / "copy")).status, 0);
  EXPECT_FALSE(fs::exists(dir_ / "copy/LOG")) << "it leaves nothing behind";
}

TEST_F(DumpTest, FindsDamage) {
  History history(6);
  {
    IndexOptions options{.dir = dir_ / "index", .reserve_bytes = 0, .write_buffer_bytes = 64 * 1024};
    auto index = RocksIndex::Open(options);
    ASSERT_TRUE(index.ok());
    for (int i = 0; i < 300; ++i) ASSERT_TRUE((*index)->Write(history.Next()).ok());
  }
  fs::copy(dir_ / "index", dir_ / "short");
  for (const auto& entry : fs::directory_iterator(dir_ / "short")) {
    if (entry.path().extension() == ".log" && entry.file_size() > 9) {
      fs::resize_file(entry.path(), entry.file_size() - 9);
    }
  }
  const Output lost = Dump("--check " + (dir_ / "short"));
  EXPECT_EQ(lost.status, 1) << lost.text;
  EXPECT_THAT(lost.text, HasSubstr("lost from the log"));

  std::string table;
  for (const auto& entry : fs::directory_iterator(dir_ / "index")) {
    if (entry.path().extension() == ".sst" && (table.empty() || entry.file_size() > fs::file_size(table))) {
      table = entry.path().string();
    }
  }
  ASSERT_FALSE(table.empty());
  std::fstream(table, std::ios::in | std::ios::out | std::ios::binary).seekp(200) << "damage";
  const Output bad = Dump("--check " + (dir_ / "index"));
  EXPECT_EQ(bad.status, 1) << bad.text;
  EXPECT_EQ(Dump(dir_ / "index > /dev/null").status, 1);
}

TEST_F(DumpTest, SaysWhyItCannot) {
  EXPECT_EQ(Dump("").status, 2);
  EXPECT_EQ(Dump("--nonsense x").status, 2);
  const Output help = Dump("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.text, HasSubstr("Exit status"));
  EXPECT_EQ(Dump(dir_ / "nothing").status, 3);
  const Output empty = Dump(dir_.path());
  EXPECT_EQ(empty.status, 3);
  EXPECT_THAT(empty.text, HasSubstr("there is no index"));

  auto index = RocksIndex::Open({.dir = dir_ / "index", .reserve_bytes = 0});
  ASSERT_TRUE(index.ok());
  const Output used = Dump(dir_ / "index");
  EXPECT_EQ(used.status, 3);
  EXPECT_THAT(used.text, HasSubstr("in use by process " + std::to_string(getpid())));
}

}  // namespace
}  // namespace tiercel::index
