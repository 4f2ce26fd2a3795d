#include "client/object_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "client/run_hasher.h"

namespace tiercel::client {

Result<std::unique_ptr<PinnedView>> PinnedView::Pin(std::shared_ptr<transfer::Engine> engine,
                                                    const StoreDirectory::Peer& peer, const Found& found,
                                                    const resp::ReplicaDescriptor& replica, int64_t timeout_ms) {
  std::unique_ptr<PinnedView> view(new PinnedView(engine, found.version, found.size));
  auto grant = replica.has_grant ? std::make_shared<const Grant>(replica.grant) : nullptr;
  uint64_t left = found.size;
  for (Extent extent : replica.extents) {
    extent.length = std::min(extent.length, left);  // without what of the trailer is in it
    if (extent.length == 0) break;
    auto pin = engine->MapView(peer.handle, replica.place, extent, grant, timeout_ms);
    if (!pin.ok()) return std::move(pin).error();
    if ((*pin)->bytes().size() != extent.length) {
      return Error(ErrorCode::kLength, fmt::format("a view of {} bytes has {}", extent.length, (*pin)->bytes().size()));
    }
    view->pieces_.push_back((*pin)->bytes());
    view->pins_.push_back(std::move(pin).value());
    left -= extent.length;
  }
  return view;
}

bool PinnedView::alive() const {
  return std::ranges::all_of(pins_, [](const auto& pin) { return pin->alive(); });
}

std::vector<uint64_t> PinnedView::Sums() const {
  RunHasher hasher(size_);
  uint64_t offset = 0;
  for (std::span<const std::byte> piece : pieces_) {
    hasher.Feed(offset, piece);
    offset += piece.size();
  }
  return hasher.Finish({});  // in order, so nothing is left to hash
}

}  // namespace tiercel::client
