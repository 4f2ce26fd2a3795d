#include "client/parts.h"

namespace tiercel::client {

transfer::TransportMask MaskFor(const Parts& parts, TransportChoice call) {
  using transfer::MaskOf;
  using transfer::TransportKind;
  switch (call == TransportChoice::kAuto ? parts.options.transport : call) {
    case TransportChoice::kAuto: return transfer::kAnyTransport;
    case TransportChoice::kTcp: return MaskOf(TransportKind::kTcp);
    case TransportChoice::kShm: return MaskOf(TransportKind::kShm);
    case TransportChoice::kLocal: return MaskOf(TransportKind::kLocal);
    case TransportChoice::kRdma: return MaskOf(TransportKind::kRdma);
  }
  return transfer::kAnyTransport;
}

}  // namespace tiercel::client
