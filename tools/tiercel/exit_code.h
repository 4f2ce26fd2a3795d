// Exit statuses of the tool, and which error leads to which.
#pragma once

#include <algorithm>

#include "tiercel/error.h"

namespace tiercel::cli {

enum ExitCode : int {
  kDone = 0,
  kMissing = 1,       // a key is not there
  kUsage = 2,         // wrong arguments
  kConflict = 3,      // the key holds another value, or someone is writing it
  kNoConnection = 4,  // master or store cannot be reached, or refuses the log-in
  kFailed = 5,        // corrupt data, files, everything else
  kInterrupted = 130,
};

inline constexpr const char* kExitCodesHelp =
    "Exit status: 0 done; 1 a key is not there; 2 wrong arguments; 3 the key holds another value, or is being\n"
    "written; 4 the master or a store cannot be reached, or refuses the log-in; 5 corrupt data, files, anything\n"
    "else; 130 interrupted.";

inline ExitCode ExitFor(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kExists:
    case ErrorCode::kInFlight: return kConflict;
    case ErrorCode::kNotFound: return kMissing;
    case ErrorCode::kInvalid: return kUsage;
    case ErrorCode::kUnreachable:
    case ErrorCode::kDeadline:
    case ErrorCode::kPeerProtocol:
    case ErrorCode::kNoDevice:
    case ErrorCode::kLoading:
    case ErrorCode::kNoAuth:
    case ErrorCode::kWrongPass: return kNoConnection;
    default: return kFailed;
  }
}

// Of several outcomes the graver one counts.
inline ExitCode Graver(ExitCode a, ExitCode b) { return std::max(a, b); }

}  // namespace tiercel::cli
