#include "server/index/committer.h"

namespace tiercel::index {
namespace {

class NullIndex final : public core::Index {
 public:
  bool keeps_records() const override { return false; }
  Status Write(std::span<const core::Record>) override { return Ok(); }
  Status Resume() override { return Ok(); }
};

}  // namespace

std::unique_ptr<core::Index> MakeNullIndex() { return std::make_unique<NullIndex>(); }

}  // namespace tiercel::index
