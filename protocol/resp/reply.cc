#include "protocol/resp/reply.h"

#include "base/check.h"

namespace tiercel::resp {
namespace {

// Redis has one word, ERR, for many causes; the sentence tells the few apart on which a client acts.
ErrorCode CodeOf(std::string_view word, std::string_view sentence) {
  if (word != "ERR") return ErrorFromWord(word);
  if (sentence.starts_with("unknown command") || sentence.starts_with("unknown subcommand")) {
    return ErrorCode::kUnknownCommand;
  }
  if (sentence.starts_with("syntax error") || sentence.starts_with("wrong number of arguments")) {
    return ErrorCode::kSyntax;
  }
  if (sentence.starts_with("Protocol error")) return ErrorCode::kProtocol;
  return ErrorCode::kInvalid;
}

}  // namespace

tiercel::Error Reply::ToError() const {
  TIERCEL_CHECK(is_error());
  const std::string_view line = text;
  const size_t space = line.find(' ');
  const std::string_view word = line.substr(0, space);
  const std::string_view sentence = space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
  const ErrorCode code = CodeOf(word, sentence);
  // A word that this version does not know must not be lost with the row that stands for it.
  return {code, std::string(code == ErrorCode::kInternal ? line : sentence)};
}

const Reply* Reply::Field(std::string_view name) const {
  if (kind != Kind::kMap && kind != Kind::kArray) return nullptr;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const Reply& key = items[i];
    if ((key.kind == Kind::kBulk || key.kind == Kind::kSimple) && key.text == name) return &items[i + 1];
  }
  return nullptr;
}

}  // namespace tiercel::resp
