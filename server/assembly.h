// Assembly: builds one process out of its settings, in the order that its parts depend on each other, and takes it
// down in the opposite order. Together with main.cc the only place that names concrete tiers and transports.
//
//   master role: core, committer, front end.  store role: segments, data servers, control conversation.
//   Both in one process: the store joins through a socket pair that the front end adopts, so that there is one
//   control protocol and no password or port to get wrong.
#pragma once

#include <memory>
#include <string>

#include "server/config/live_config.h"
#include "tiercel/result.h"

namespace tiercel::server {

class Assembly {
 public:
  // Everything is bound, mapped and started when this returns; an error names what could not be had.
  static Result<std::unique_ptr<Assembly>> Build(const config::Settings& settings);
  ~Assembly();
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  // True when a store of this process serves (or there is none). At most that long.
  bool WaitReady(int64_t timeout_ms);
  // What is served and where: lines for people, then one line "ready name=address ..." for programs.
  std::string Banner() const;
  // Stops taking puts, finishes what is under way within `grace_ms`, hands the store's leave to its master, ends.
  void Stop(int64_t grace_ms);

 private:
  Assembly();
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tiercel::server
