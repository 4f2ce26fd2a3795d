// The tree keeps to its layers; and the checker, which says so, finds what breaks them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/layers/layer_rules.h"

namespace tiercel::layers {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const fs::path& Root() {
  static const fs::path root = TIERCEL_SOURCE_DIR;
  return root;
}

bool InTree(std::string_view path) { return fs::is_regular_file(Root() / path); }

std::vector<std::string> Sources() {
  const std::set<std::string> kExtensions = {".h", ".cc", ".inc", ".hpp", ".cpp"};
  std::vector<std::string> files;
  for (auto it = fs::recursive_directory_iterator(Root()); it != fs::recursive_directory_iterator(); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() && (name.starts_with(".") || (it.depth() == 0 && name.starts_with("build")))) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file() && kExtensions.contains(it->path().extension().string())) {
      files.push_back(it->path().lexically_relative(Root()).generic_string());
    }
  }
  return files;
}

std::string Read(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(Root() / file).rdbuf();
  return text.str();
}

TEST(Layers, TheTreeKeepsToThem) {
  const std::vector<std::string> files = Sources();
  EXPECT_GT(files.size(), 100u);
  for (const std::string& file : files) {
    for (const std::string& wrong : CheckFile(file, Read(file), &InTree)) ADD_FAILURE() << wrong;
  }
}

TEST(Layers, TheTableHasNoCirclesAndNoUnknownFolders) { EXPECT_THAT(CheckRules(), IsEmpty()); }

TEST(Layers, OneOutsideLibraryBelongsToFewFolders) {
  std::set<std::string_view> of_spdlog;
  for (const Rule& rule : Rules()) {
    for (const std::string_view library : rule.libraries) {
      if (library == "spdlog") of_spdlog.insert(rule.folder);
    }
  }
  EXPECT_THAT(of_spdlog, ElementsAre("base"));
}

// A tree that exists only here.
bool InSample(std::string_view path) {
  static const std::set<std::string_view> files = {
      "include/tiercel/types.h",   "base/log.h",         "base/loop/loop.h",   "server/core/master.h",
      "server/net/server.h",       "transfer/tcp/tcp.h", "transfer/shm/shm.h", "transfer/engine.h",
      "tiers/dram/dram_segment.h", "odd/folder.h"};
  return files.contains(path);
}

std::vector<std::string> Check(std::string_view file, std::string_view text) {
  return CheckFile(file, text, &InSample);
}

TEST(LayerChecker, FindsUpwardIncludesWithFileAndLine) {
  EXPECT_THAT(Check("base/log.cc",
                    "// a comment\n"
                    "#include \"base/log.h\"\n"
                    "#include <vector>\n"
                    "\n"
                    "  #  include \"server/core/master.h\"\n"),
              ElementsAre("base/log.cc:5: base may not use server/core (server/core/master.h)"));
}

TEST(LayerChecker, FindsSiblingsAndConcreteClasses) {
  EXPECT_THAT(Check("transfer/tcp/tcp.cc", "#include \"transfer/shm/shm.h\"\n"),
              ElementsAre(HasSubstr("transfer/tcp may not use transfer/shm")));
  EXPECT_THAT(Check("server/node/node.cc", "#include \"transfer/engine.h\"\n#include \"tiers/dram/dram_segment.h\"\n"),
              ElementsAre(HasSubstr("server/node/node.cc:2: server/node may not use tiers/dram")));
  EXPECT_THAT(Check("client/client.cc", "#include \"transfer/tcp/tcp.h\"\n"), ElementsAre(HasSubstr("may not use")));
  EXPECT_THAT(Check("client/make_client.cc", "#include \"transfer/tcp/tcp.h\"\n"), IsEmpty());
  EXPECT_THAT(Check("server/main.cc", "#include \"tiers/dram/dram_segment.h\"\n"), IsEmpty());
}

TEST(LayerChecker, MayUseIsTransitive) {
  EXPECT_THAT(Check("server/net/server.cc",
                    "#include <tiercel/types.h>\n#include \"base/log.h\"\n#include \"tiercel/types.h\"\n"),
              IsEmpty());
}

TEST(LayerChecker, FindsOutsideLibraries) {
  EXPECT_THAT(Check("server/core/master.cc", "#include <asio/post.hpp>\n"),
              ElementsAre("server/core/master.cc:1: server/core may not use asio (<asio/post.hpp>)"));
  EXPECT_THAT(Check("server/net/server.cc", "#include <asio/post.hpp>\n#include <spdlog/spdlog.h>\n"),
              ElementsAre(HasSubstr("server.cc:2: server/net may not use spdlog")));
  EXPECT_THAT(Check("include/tiercel/types.h", "#include <fmt/core.h>\n"), ElementsAre(HasSubstr("may not use fmt")));
  EXPECT_THAT(Check("base/log.cc", "#include <boost/any.hpp>\n"), ElementsAre(HasSubstr("library without a rule")));
}

TEST(LayerChecker, PureFoldersUseNoSystem) {
  EXPECT_THAT(
      Check("server/core/a.cc", "#include <thread>\n#include <vector>\n#include <unistd.h>\n#include <sys/mman.h>\n"),
      ElementsAre("server/core/a.cc:1: server/core is pure and may not use <thread>",
                  "server/core/a.cc:3: server/core is pure and may not use <unistd.h>"));
}

TEST(LayerChecker, FindsWhatHasNoRuleOrDoesNotExist) {
  EXPECT_THAT(Check("server/other/a.cc", "#include <vector>\n"),
              ElementsAre("server/other/a.cc:1: lies in a folder without a rule"));
  EXPECT_THAT(Check("base/a.cc", "#include \"base/missing.h\"\n"), ElementsAre(HasSubstr("is not in the tree")));
  EXPECT_THAT(Check("tests/a.cc", "#include \"odd/folder.h\"\n"), ElementsAre(HasSubstr("folder without a rule")));
}

}  // namespace
}  // namespace tiercel::layers
