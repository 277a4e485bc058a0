// Result<T>: a value, or the Error that says why there is none. No call of this library throws.
#pragma once

#include <cstdlib>
#include <optional>
#include <utility>
#include <variant>

#include "boxlite/error.h"

namespace boxlite {

template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit by design
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design

    bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }

    // Precondition: ok(). A broken precondition ends the process.
    T& value() & { return check(), std::get<0>(state_); }
    const T& value() const& { return check(), std::get<0>(state_); }
    T value() && { return check(), std::move(std::get<0>(state_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    // Precondition: !ok().
    const Error& error() const& { return std::get<1>(state_); }
    Error error() && { return std::move(std::get<1>(state_)); }

  private:
    void check() const {
        if (!ok()) std::abort();
    }
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design

    bool ok() const { return !error_.has_value(); }
    explicit operator bool() const { return ok(); }
    void value() const {
        if (!ok()) std::abort();
    }

    // Precondition: !ok().
    const Error& error() const& { return *error_; }
    Error error() && { return std::move(*error_); }

  private:
    std::optional<Error> error_;
};

}  // namespace boxlite
