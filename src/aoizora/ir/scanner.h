#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "aoizora/base/error.h"

/// The part of reading that HLO and MLIR share: a cursor over text that ends with a zero byte, positions,
/// brackets and strings.
namespace aoizora::ir {

namespace detail {

constexpr std::array<bool, 256> identifier_table() {
  std::array<bool, 256> table{};
  for (std::size_t c = 0; c < 26; ++c) table['a' + c] = table['A' + c] = true;
  for (std::size_t c = '0'; c <= '9'; ++c) table[c] = true;
  table['_'] = table['.'] = table['-'] = true;
  return table;
}
inline constexpr std::array<bool, 256> kIdentifier = identifier_table();

}  // namespace detail

/// The text ended where more had to follow. Caught by the readers, which then keep what they have.
struct Truncated {
  const char* at = nullptr;
};

/// Brackets nest at most this deep: a limit no compiler reaches, far below any stack or time problem.
inline constexpr int kMaxNesting = 512;

enum class CommentStyle : std::uint8_t { kHlo, kMlir };

/// `p` may be moved freely within [begin, end]; *end is a zero byte.
class Scanner {
 public:
  Scanner(std::string_view text, const std::string& file, CommentStyle comments = CommentStyle::kHlo)
      : p(text.data()),
        begin_(text.data()),
        end_(text.data() + text.size()),
        counted_(begin_),
        line_start_(begin_),
        file_(&file),
        comments_(comments) {}

  const char* p;

  const char* begin() const { return begin_; }
  const char* end() const { return end_; }
  bool at_end() const { return p == end_; }
  const std::string& file() const { return *file_; }

  /// Line and column of a place in the text; cheap when asked in increasing order.
  Position position(const char* at);

  [[noreturn]] void fail(const char* at, const std::string& message);
  /// As fail(p, ...), but Truncated when the text ends here.
  [[noreturn]] void fail_here(const std::string& message);

  /// Skips blanks, newlines and comments.
  void skip_space() {
    while (true) {
      while (is_space(*p)) ++p;
      if (*p != '/') return;
      if (!skip_comment()) return;
    }
  }

  /// Takes `c` (after blanks) if it is next.
  bool accept(char c) {
    skip_space();
    if (*p != c) return false;
    ++p;
    return true;
  }
  void expect(char c, const char* what);
  /// Takes `->`.
  void expect_arrow(const char* what);
  /// p is at the end and no newline stands behind the last token: the line may go on.
  bool in_last_line() const;

  /// HLO's identifier: letters, digits, `_`, `.`, `-`. Empty when none. Truncated when it touches the end.
  std::string_view identifier();
  /// A non-negative or negative decimal int64; fails on anything else and on overflow.
  std::int64_t integer(const char* what);

  /// p stands at an opening bracket; moves behind its partner. Strings and comments inside are skipped.
  void skip_balanced();
  /// p stands at a `"`; moves behind the closing one. Backslash escapes.
  void skip_string();

  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
  static bool is_identifier(char c) { return detail::kIdentifier[static_cast<unsigned char>(c)]; }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

 private:
  bool skip_comment();

  const char* begin_;
  const char* end_;
  const char* counted_;  // position() has counted the newlines before this
  const char* line_start_;
  std::uint32_t line_ = 1;
  const std::string* file_;
  CommentStyle comments_;
};

}  // namespace aoizora::ir
