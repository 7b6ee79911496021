#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

/// Two kinds of error, never mixed: the user's (exit 2: what is wrong, where, what to do) and ours (exit 70).
namespace aoizora {

/// A place in a text a user gave us. Lines and columns count from 1; 0 means "not known".
struct Position {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

/// The input is wrong. what() is one clear line: `FILE:LINE:COL: error: what was expected` where a place is
/// known.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message) : std::runtime_error(message), message_(message) {}
  UserError(std::string file, Position at, std::string message)
      : std::runtime_error(fmt::format("{}:{}:{}: error: {}", file, at.line, at.column, message)),
        file_(std::move(file)),
        position_(at),
        message_(std::move(message)) {}

  const std::string& file() const noexcept { return file_; }
  Position position() const noexcept { return position_; }
  /// The message without its place.
  const std::string& message() const noexcept { return message_; }

 private:
  std::string file_;
  Position position_;
  std::string message_;
};

/// An invariant of ours does not hold: a bug in AoiZora, whatever the input was.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// The user asked to stop (Ctrl-C) or a budget ended before there was anything to return.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void user_error(fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace aoizora

/// Checks an invariant of ours in every build; throws InternalError with the place.
#define AOIZORA_CHECK(condition, ...)                                                               \
  do {                                                                                              \
    if (!(condition)) [[unlikely]] {                                                                \
      throw ::aoizora::InternalError(fmt::format("{}:{}: {} does not hold: {}", __FILE__, __LINE__, \
                                                 #condition, fmt::format(__VA_ARGS__)));            \
    }                                                                                               \
  } while (false)
