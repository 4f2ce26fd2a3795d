// What can go wrong, as one table. An Error is a code plus a sentence with the numbers.
//
// Codes are causes: one cause, one code. Each row gives the code's own name (as logs, metrics and tests
// name it), the word that a RESP client or a data-port client sees first, and what a caller should do
// next. Several causes share a word; the sentence behind it tells them apart for people.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace tiercel {

// What the caller of a failed operation should do next.
enum class ErrorAction {
  kGiveUp,       // the request itself is wrong, or not allowed
  kStartAgain,   // the put is gone: begin a new one
  kWait,         // the system is busy or full: the same request may succeed later
  kLookUpAgain,  // what the caller knew is out of date: ask the master again
  kNextReplica,  // this copy or path is bad: try another one
};

// X(enumerator, cause name, word on the wire, action)
#define TIERCEL_ERRORS(X)                                          \
  X(kInvalid, "INVALID", "ERR", kGiveUp)                           \
  X(kSyntax, "SYNTAX", "ERR", kGiveUp)                             \
  X(kUnknownCommand, "UNKNOWNCOMMAND", "ERR", kGiveUp)             \
  X(kProtocol, "PROTOCOL", "ERR", kGiveUp)                         \
  X(kInternal, "INTERNAL", "ERR", kGiveUp)                         \
  X(kIo, "IO", "ERR", kGiveUp)                                     \
  X(kTooBig, "TOOBIG", "TOOBIG", kGiveUp)                          \
  X(kTooManyOps, "TOO_MANY_OPS", "TOOBIG", kGiveUp)                \
  X(kOverlap, "OVERLAP", "ERR", kGiveUp)                           \
  X(kNotRegistered, "NOTREGISTERED", "ERR", kGiveUp)               \
  X(kWrongType, "WRONGTYPE", "WRONGTYPE", kGiveUp)                 \
  X(kExecAbort, "EXECABORT", "EXECABORT", kGiveUp)                 \
  X(kNoProto, "NOPROTO", "NOPROTO", kGiveUp)                       \
  X(kNoAuth, "NOAUTH", "NOAUTH", kGiveUp)                          \
  X(kUnauthenticated, "UNAUTHENTICATED", "NOAUTH", kGiveUp)        \
  X(kWrongPass, "WRONGPASS", "WRONGPASS", kGiveUp)                 \
  X(kNoPerm, "NOPERM", "NOPERM", kGiveUp)                          \
  X(kNotOwner, "NOTOWNER", "NOPERM", kGiveUp)                      \
  X(kNotFound, "NOTFOUND", "NOKEY", kGiveUp)                       \
  X(kNoStore, "NOSTORE", "NOSTORE", kGiveUp)                       \
  X(kNoSegment, "NOSEGMENT", "NOSEGMENT", kGiveUp)                 \
  X(kNoTask, "NOSUCHTASK", "NOTASK", kGiveUp)                      \
  X(kNameInUse, "NAMEINUSE", "NAMEINUSE", kGiveUp)                 \
  X(kExists, "KEYEXISTS", "EXISTS", kGiveUp)                       \
  X(kInFlight, "INFLIGHT", "BUSYPUT", kWait)                       \
  X(kNoPut, "PUTVOID", "NOPUT", kStartAgain)                       \
  X(kPutFailed, "PUTFAILED", "NOREPLICA", kStartAgain)             \
  X(kNoReplica, "NOREPLICA", "NOREPLICA", kGiveUp)                 \
  X(kStalePut, "STALEPUT", "STALEPUT", kStartAgain)                \
  X(kInUse, "INUSE", "INUSE", kStartAgain)                         \
  X(kNoSpace, "NOSPACE", "OOM", kWait)                             \
  X(kNoMemory, "NOMEMORY", "OOM", kWait)                           \
  X(kMetadataFull, "METADATAFULL", "OOM", kWait)                   \
  X(kTooFewHosts, "TOOFEWHOSTS", "STRICT", kGiveUp)                \
  X(kPinBudget, "PINBUDGET", "PINFULL", kWait)                     \
  X(kRetry, "RETRY", "RETRY", kWait)                               \
  X(kAdmissionTimeout, "ADMISSION_TIMEOUT", "RETRY", kWait)        \
  X(kIndexReadOnly, "INDEXRO", "INDEXRO", kWait)                   \
  X(kLoading, "LOADING", "LOADING", kWait)                         \
  X(kNotLeader, "NOTLEADER", "NOTLEADER", kLookUpAgain)            \
  X(kOldEpoch, "OLD_EPOCH", "STALE", kLookUpAgain)                 \
  X(kStaleIncarnation, "STALE_INCARNATION", "STALE", kLookUpAgain) \
  X(kStaleVersion, "VERSION", "STALE", kLookUpAgain)               \
  X(kBadGrant, "BAD_GRANT", "BADGRANT", kLookUpAgain)              \
  X(kGrantExpired, "GRANT_EXPIRED", "BADGRANT", kLookUpAgain)      \
  X(kUnknownSegment, "UNKNOWN_SEGMENT", "BADGRANT", kLookUpAgain)  \
  X(kOutOfRange, "OUT_OF_RANGE", "BADGRANT", kLookUpAgain)         \
  X(kLeaseExpired, "LEASEEXPIRED", "EXPIRED", kLookUpAgain)        \
  X(kChecksum, "CHECKSUM", "CORRUPT", kNextReplica)                \
  X(kLength, "LENGTH", "CORRUPT", kNextReplica)                    \
  X(kUnreachable, "UNREACHABLE", "UNREACHABLE", kNextReplica)      \
  X(kNoDevice, "NODEVICE", "UNREACHABLE", kNextReplica)            \
  X(kDeadline, "DEADLINE", "UNREACHABLE", kNextReplica)            \
  X(kPeerProtocol, "PEER_PROTOCOL", "UNREACHABLE", kNextReplica)   \
  X(kShutdown, "SHUTDOWN", "UNREACHABLE", kNextReplica)            \
  X(kCancelled, "CANCELLED", "UNREACHABLE", kGiveUp)

enum class ErrorCode {
#define TIERCEL_ERROR_ENUM(code, name, word, action) code,
  TIERCEL_ERRORS(TIERCEL_ERROR_ENUM)
#undef TIERCEL_ERROR_ENUM
};

struct ErrorInfo {
  ErrorCode code;
  std::string_view name;  // of the cause
  std::string_view word;  // first word on the wire
  ErrorAction action;
};

inline constexpr ErrorInfo kErrorTable[] = {
#define TIERCEL_ERROR_ROW(code, name, word, action) {ErrorCode::code, name, word, ErrorAction::action},
    TIERCEL_ERRORS(TIERCEL_ERROR_ROW)
#undef TIERCEL_ERROR_ROW
};
inline constexpr size_t kErrorCount = sizeof(kErrorTable) / sizeof(kErrorTable[0]);

constexpr const ErrorInfo& InfoOf(ErrorCode code) { return kErrorTable[static_cast<size_t>(code)]; }

// The code that a wire's first word stands for; the first row with that word. kInternal when unknown.
constexpr ErrorCode ErrorFromWord(std::string_view word) {
  for (const ErrorInfo& row : kErrorTable) {
    if (row.word == word) return row.code;
  }
  return ErrorCode::kInternal;
}

// The code whose own name this is (the data port sends names, which lose nothing). kInternal when unknown.
constexpr ErrorCode ErrorFromName(std::string_view name) {
  for (const ErrorInfo& row : kErrorTable) {
    if (row.name == name) return row.code;
  }
  return ErrorCode::kInternal;
}

class [[nodiscard]] Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  // The sentence, without the word; never contains CR or LF when it came through the project's own code.
  const std::string& message() const { return message_; }
  std::string_view name() const { return InfoOf(code_).name; }
  std::string_view word() const { return InfoOf(code_).word; }
  ErrorAction action() const { return InfoOf(code_).action; }
  // "OOM needed 4096 bytes, ..." as it stands on the wire.
  std::string ToString() const { return std::string(word()) + " " + message_; }

 private:
  ErrorCode code_;
  std::string message_;
};

}  // namespace tiercel
