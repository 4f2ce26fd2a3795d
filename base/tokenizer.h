// Splits one line into words as Redis does: the syntax of redis.conf and of inline commands.
//
// Words are separated by white space. "..." understands \n \r \t \b \a \\ \" and \xHH; '...' only \'.
// A closing quote must be followed by white space or the end. A line is one directive or one command.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tiercel/result.h"

namespace tiercel {

// kSyntax "unbalanced quotes ..." on a bad line. An empty line gives no words.
Result<std::vector<std::string>> Tokenize(std::string_view line);

// The shortest form that Tokenize reads back as exactly this word.
std::string QuoteWord(std::string_view word);

}  // namespace tiercel
