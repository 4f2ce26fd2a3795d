#include "base/fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/check.h"

namespace tiercel {

void UniqueFd::Reset() {
  // EBADF would mean that somebody else closed it: a descriptor of another owner may be hit next.
  if (fd_ >= 0) TIERCEL_CHECK(close(fd_) == 0 || errno != EBADF);
  fd_ = -1;
}

Result<UniqueFd> UniqueFd::Duplicate() const {
  const int copy = fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return SystemError("duplicate a descriptor", errno);
  return UniqueFd(copy);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  Mapping old(std::exchange(data_, std::exchange(other.data_, nullptr)),
              std::exchange(size_, std::exchange(other.size_, 0)));
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) TIERCEL_CHECK(munmap(data_, size_) == 0);
}

Error SystemError(std::string_view what, int error_number) {
  ErrorCode code = ErrorCode::kIo;
  switch (error_number) {
    case ENOMEM: code = ErrorCode::kNoMemory; break;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ENETRESET:
    case ENOTCONN:
    case EPIPE:
    case ETIMEDOUT: code = ErrorCode::kUnreachable; break;
    default: break;
  }
  return Error(code, std::string(what) + ": " + std::generic_category().message(error_number));
}

}  // namespace tiercel
