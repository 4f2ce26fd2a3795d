// What one client consists of, handed to the readers, writers and viewers that work for a call.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "client/buffer_cache.h"
#include "client/control.h"
#include "client/mover.h"
#include "client/stop.h"
#include "client/store_directory.h"
#include "client/trailer_cache.h"
#include "tiercel/client.h"
#include "transfer/engine.h"

namespace tiercel::client {

// Thread-safe as a whole; lives as long as the client. Views and registered memory share the engine beyond it.
struct Parts {
  Parts(const ClientOptions& client_options, std::string host, std::unique_ptr<resp::Connection> connection,
        const Clock* the_clock)
      : options(client_options),
        host_id(std::move(host)),
        clock(the_clock),
        control(std::move(connection), host_id, &stop) {}

  // Called once, when the engine is there.
  void SetEngine(std::shared_ptr<transfer::Engine> the_engine) {
    engine = std::move(the_engine);
    mover = std::make_unique<Mover>(engine.get());
    directory = std::make_unique<StoreDirectory>(&control, engine.get(), host_id);
  }

  // Bytes of one call that are under way at a time: a grant need not last for more.
  uint64_t step_bytes = uint64_t{256} << 20;

  int64_t NowMs() const { return clock->Now().boot_ms; }

  const ClientOptions options;
  const std::string host_id;
  const Clock* const clock;  // leases run on its boot clock
  StopSignal stop;
  Control control;
  std::shared_ptr<transfer::Engine> engine;
  std::unique_ptr<Mover> mover;
  std::unique_ptr<StoreDirectory> directory;
  TrailerCache trailers;
  std::shared_ptr<BufferCache> buffers = std::make_shared<BufferCache>();
};

// A call's choice of wires, as the engine's mask: the call's own, else the client's.
transfer::TransportMask MaskFor(const Parts& parts, TransportChoice call);

}  // namespace tiercel::client
