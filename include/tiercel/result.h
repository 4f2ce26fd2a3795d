// Result<T>: a value or an Error. The only way in which the project reports expected failures.
#pragma once

#include <cstdlib>
#include <optional>
#include <utility>
#include <variant>

#include "tiercel/error.h"

namespace tiercel {

// Reading value() of a failed result, or error() of a good one, is a broken invariant: it stops the
// process (std::abort) rather than throwing.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    Require(ok());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    Require(ok());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    Require(ok());
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T value_or(T other) const { return ok() ? *std::get_if<0>(&state_) : std::move(other); }

  const Error& error() const& {
    Require(!ok());
    return *std::get_if<1>(&state_);
  }
  Error&& error() && {
    Require(!ok());
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  static void Require(bool condition) {
    if (!condition) std::abort();
  }
  std::variant<T, Error> state_;
};

// Success without a value: `return Ok();`
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const& {
    if (ok()) std::abort();
    return *error_;
  }
  Error&& error() && {
    if (ok()) std::abort();
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;
inline Status Ok() { return {}; }

// Evaluates an expression that gives a Result; returns its error from the enclosing function.
#define TIERCEL_TRY(expression)                                 \
  do {                                                          \
    if (auto tiercel_try_ = (expression); !tiercel_try_.ok()) { \
      return std::move(tiercel_try_).error();                   \
    }                                                           \
  } while (false)

#define TIERCEL_CONCAT_(a, b) a##b
#define TIERCEL_CONCAT(a, b) TIERCEL_CONCAT_(a, b)
// TIERCEL_ASSIGN(auto x, Compute()): declares or assigns the value, or returns the error.
#define TIERCEL_ASSIGN(target, expression) \
  TIERCEL_ASSIGN_(target, expression, TIERCEL_CONCAT(tiercel_result_, __LINE__))
#define TIERCEL_ASSIGN_(target, expression, name) \
  auto name = (expression);                       \
  if (!name.ok()) return std::move(name).error(); \
  target = std::move(name).value()

}  // namespace tiercel
