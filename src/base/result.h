// TRY and friends over the public Result<T>.
#pragma once

#include <fmt/format.h>

#include <cerrno>

#include "boxlite/result.h"

// The value of a Result, or return its error from the enclosing function.
//   auto fd = TRY(open_file(path));
// In a braced initialiser or a list of arguments it must be the first part that makes an object: g++ 12
// leaks the parts made before an early return, as `name` in Entry{name, TRY(size_of(name))}.
#define TRY(expression)                            \
    __extension__({                                \
        auto try_result_ = (expression);           \
        if (!try_result_.ok()) [[unlikely]]        \
            return std::move(try_result_).error(); \
        std::move(try_result_).value();            \
    })

// TRY that puts "<context>: " in front of the message.
#define TRY_CONTEXT(expression, context)                                 \
    __extension__({                                                      \
        auto try_result_ = (expression);                                 \
        if (!try_result_.ok()) [[unlikely]]                              \
            return std::move(try_result_).error().with_context(context); \
        std::move(try_result_).value();                                  \
    })

namespace boxlite::base {

// make_error(ErrorCode::kImage, "layer {} is {} bytes", digest, size)
template <typename... Args>
Error make_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
    return Error{code, fmt::format(format, std::forward<Args>(args)...)};
}

// errno_error(ErrorCode::kStorage, "open {}", path): "cannot open /x: No such file or directory".
// Reads errno on entry.
template <typename... Args>
Error errno_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
    const int saved = errno;
    return Error::from_errno(code, fmt::format(format, std::forward<Args>(args)...), saved);
}

}  // namespace boxlite::base
