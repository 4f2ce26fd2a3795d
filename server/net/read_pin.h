// ReadPin: one version's bytes stay where they are until it ends (the core's BeginRead and EndRead).
#pragma once

#include <utility>

#include "server/net/master_host.h"

namespace tiercel::net {

class ReadPin {
 public:
  ReadPin() = default;
  ReadPin(MasterHost* host, Version version) : host_(host), version_(version) {}
  ReadPin(ReadPin&& other) noexcept : host_(std::exchange(other.host_, nullptr)), version_(other.version_) {}
  ReadPin& operator=(ReadPin&& other) noexcept {
    if (this != &other) {
      End();
      host_ = std::exchange(other.host_, nullptr);
      version_ = other.version_;
    }
    return *this;
  }
  // Takes the core's lock: never destroyed with a pin inside a hold; use EndLocked there.
  ~ReadPin() { End(); }
  void End() {
    if (MasterHost* host = std::exchange(host_, nullptr)) {
      MasterHost::Hold hold(host);
      hold.master().EndRead(version_, host->Now());
    }
  }
  void EndLocked(core::Master& master, Times now) {
    if (std::exchange(host_, nullptr) != nullptr) master.EndRead(version_, now);
  }
  explicit operator bool() const { return host_ != nullptr; }

 private:
  MasterHost* host_ = nullptr;
  Version version_;
};

}  // namespace tiercel::net
