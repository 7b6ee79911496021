#include "aoizora/ir/scanner.h"

#include <array>
#include <charconv>
#include <cstring>

namespace aoizora::ir {
namespace {

enum Class : std::uint8_t { kPlain, kOpen, kClose, kQuote, kSlash, kZero };

constexpr std::array<Class, 256> classes() {
  std::array<Class, 256> table{};
  table['('] = table['['] = table['{'] = kOpen;
  table[')'] = table[']'] = table['}'] = kClose;
  table['"'] = kQuote;
  table['/'] = kSlash;
  table[0] = kZero;
  return table;
}
constexpr std::array<Class, 256> kClasses = classes();

char partner(char open) { return open == '(' ? ')' : open == '[' ? ']' : '}'; }

std::size_t distance(const char* from, const char* to) { return static_cast<std::size_t>(to - from); }

}  // namespace

Position Scanner::position(const char* at) {
  if (at < line_start_) {  // going back is for errors only
    counted_ = line_start_ = begin_;
    line_ = 1;
  }
  while (counted_ < at) {
    const void* const found = std::memchr(counted_, '\n', distance(counted_, at));
    if (found == nullptr) {
      counted_ = at;
      break;
    }
    counted_ = line_start_ = static_cast<const char*>(found) + 1;
    ++line_;
  }
  return {line_, static_cast<std::uint32_t>(at - line_start_) + 1};
}

void Scanner::fail(const char* at, const std::string& message) {
  throw UserError(*file_, position(at), message);
}

void Scanner::fail_here(const std::string& message) {
  if (at_end()) throw Truncated{p};
  fail(p, message);
}

void Scanner::expect(char c, const char* what) {
  skip_space();
  if (*p == c && !at_end()) {
    ++p;
    return;
  }
  fail_here(fmt::format("expected {}", what));
}

void Scanner::expect_arrow(const char* what) {
  expect('-', what);
  if (at_end()) throw Truncated{p};
  if (*p != '>') fail(p, fmt::format("expected {}", what));
  ++p;
}

bool Scanner::in_last_line() const {
  if (!at_end()) return false;
  const char* at = end_;
  while (at > begin_ && is_space(at[-1])) {
    if (*--at == '\n') return false;
  }
  return true;
}

bool Scanner::skip_comment() {
  if (p[1] == '/') {
    const void* const newline = std::memchr(p, '\n', distance(p, end_));
    p = newline == nullptr ? end_ : static_cast<const char*>(newline);
    return true;
  }
  if (p[1] != '*' || comments_ == CommentStyle::kMlir) return false;
  const std::string_view rest(p + 2, distance(p + 2, end_));
  const std::size_t close = rest.find("*/");
  if (close == std::string_view::npos) throw Truncated{end_};
  p = rest.data() + close + 2;
  return true;
}

std::string_view Scanner::identifier() {
  const char* const start = p;
  while (is_identifier(*p)) ++p;
  if (at_end()) throw Truncated{start};
  return {start, distance(start, p)};
}

std::int64_t Scanner::integer(const char* what) {
  std::int64_t value = 0;
  const auto [next, error] = std::from_chars(p, end_, value);
  if (error == std::errc::result_out_of_range) fail(p, fmt::format("{} does not fit 64 bits", what));
  if (error != std::errc()) fail_here(fmt::format("expected {}", what));
  if (next == end_) throw Truncated{p};
  p = next;
  return value;
}

void Scanner::skip_string() {
  const char* const open = p++;
  while (true) {
    const void* const found = std::memchr(p, '"', distance(p, end_));
    if (found == nullptr) throw Truncated{open};
    const char* const quote = static_cast<const char*>(found);
    p = quote + 1;
    const char* slash = quote;
    while (slash[-1] == '\\') --slash;  // stops at the opening quote at the latest
    if ((quote - slash) % 2 == 0) return;
  }
}

void Scanner::skip_balanced() {
  std::array<const char*, kMaxNesting> open;
  std::size_t depth = 0;
  const char* const first = p;
  if (kClasses[static_cast<unsigned char>(*p)] != kOpen) fail_here("expected an opening bracket");
  do {
    while (kClasses[static_cast<unsigned char>(*p)] == kPlain) ++p;
    switch (kClasses[static_cast<unsigned char>(*p)]) {
      case kOpen:
        if (depth == open.size()) fail(p, fmt::format("brackets nest deeper than {}", kMaxNesting));
        open[depth++] = p++;
        break;
      case kClose:
        --depth;
        if (*p != partner(*open[depth])) {
          const Position at = position(open[depth]);
          fail(p, fmt::format("expected '{}' to close the '{}' at {}:{}", partner(*open[depth]), *open[depth],
                              at.line, at.column));
        }
        ++p;
        break;
      case kQuote:
        skip_string();
        break;
      case kSlash:
        if (!skip_comment()) ++p;
        break;
      default:  // kZero
        if (at_end()) throw Truncated{first};
        ++p;
    }
  } while (depth > 0);
}

}  // namespace aoizora::ir
