// Who may include what: the layers of the tree as one table, and a checker of include lines against it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tiercel::layers {

struct Rule {
  std::string_view folder;  // exactly this one, not those below; a file where a name ends in .cc
  // Folders that it may include from, besides itself; and, in turn, all that these may.
  std::vector<std::string_view> may_use;
  // Outside libraries, by the names of kLibraries; these do not pass on to who uses the folder.
  std::vector<std::string_view> libraries;
  // Pure logic: of the system only what is listed here, and no threads, clocks or files of the standard library.
  bool pure = false;
  std::vector<std::string_view> system_headers_of_pure;
};

// The first rule that fits a file wins; folders that end in /** stand for everything below.
std::span<const Rule> Rules();

// What is wrong with the include lines of one file, as "FILE:LINE: what". `exists` tells whether a path (relative to
// the tree) is there.
std::vector<std::string> CheckFile(std::string_view file, std::string_view text, bool (*exists)(std::string_view path));

// What is wrong with the table itself: unknown folders, circles.
std::vector<std::string> CheckRules();

}  // namespace tiercel::layers
