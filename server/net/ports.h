// Ports: what the front end needs of the rest of the process. Declared here, implemented above, so that sessions
// know no option table, no store and no main program. All are called from loop threads, never under the core's
// lock, and must be thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/core/payload_port.h"
#include "tiercel/result.h"

namespace tiercel::net {

// CONFIG GET, SET and RESETSTAT as seen from a session. Secrets (requirepass, masterauth) come back as they are:
// only a user who may run CONFIG asks.
class ConfigPort {
 public:
  using Row = std::pair<std::string, std::string>;
  virtual ~ConfigPort() = default;
  // Every directive whose name matches the glob pattern (any case), each once.
  virtual std::vector<Row> Get(std::string_view pattern) const = 0;
  // All changes or none. The error's message is what Redis says behind "ERR ", e.g. "Unknown option or number of
  // arguments for CONFIG SET - 'x'" or "CONFIG SET failed (possibly related to argument 'x') - ...".
  virtual Status Set(std::span<const Row> changes) = 0;
};

// The process itself.
class ProcessPort {
 public:
  virtual ~ProcessPort() = default;
  // SHUTDOWN: begins the orderly end and returns at once; the connection gets no answer.
  virtual void Shutdown() = 0;
  // BGSAVE: begins a copy of the index. kInvalid: there is none; kRetry: one is being made.
  virtual Status StartSave() = 0;
  struct Saves {
    bool running = false;
    int64_t last_wall_ms = 0;  // of the last good one; 0: none in this run
    bool last_failed = false;
  };
  virtual Saves saves() const = 0;
};

// Sections of INFO that others fill: appends "name:value\r\n" lines. `section` is lower case; unknown: nothing.
class InfoPort {
 public:
  virtual ~InfoPort() = default;
  virtual std::vector<std::string> Sections() const = 0;  // titles as they stand behind "# "
  virtual void Append(std::string_view section, std::string* out) const = 0;
};

// The user in whose name the payload port opens its connections to other stores; grants handed to it are made out to
// UserId(kServerUser). No user directive can have this name.
inline constexpr std::string_view kServerUser = "@server";

// Where the master's generation is kept over restarts.
class GenerationPort {
 public:
  virtual ~GenerationPort() = default;
  // When it returns Ok, the next life of this master begins above this number, whatever happens.
  virtual Status KeepAtLeast(uint64_t generation) = 0;
};

struct Ports {
  core::PayloadPort* payload = nullptr;  // REQUIRED with the master's role
  ConfigPort* config = nullptr;          // nullptr: CONFIG GET answers nothing, CONFIG SET an error
  ProcessPort* process = nullptr;        // nullptr: SHUTDOWN answers an error
  InfoPort* info = nullptr;
  GenerationPort* generation = nullptr;  // nullptr: nothing outlives the process
};

}  // namespace tiercel::net
