// Signals of the process: blocked in every thread, taken by the main one.
#pragma once

#include <cstdint>

namespace tiercel::server {

enum class ProcessEvent : uint8_t {
  kStop,       // SIGTERM, SIGINT, or SHUTDOWN over RESP
  kReopenLog,  // SIGHUP: the log file was moved away
};

// Blocks them for this thread and all that it starts; SIGPIPE and SIGXFSZ are ignored. Call before any thread exists.
void BlockSignals();
// Waits for the next event. Main thread only.
ProcessEvent WaitForEvent();
// Makes WaitForEvent return kStop. Any thread.
void RequestStop();
// Whether WaitForEvent would return kStop now; takes nothing away. Any thread.
bool StopRequested();

}  // namespace tiercel::server
