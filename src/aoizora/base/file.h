#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace aoizora {

/// The whole file as text; `-` is standard input. gz, xz and zstd are unpacked, recognised by content.
/// UserError when it cannot be read, is a broken archive, or unpacks to more than `limit` bytes
/// (a small file that unpacks to a huge one must not exhaust memory).
std::string read_text(const std::filesystem::path& path, std::size_t limit = std::size_t{4} << 30);

/// Writes a file so that a reader sees the old content or the whole new one, never a part:
/// a temporary beside it, flushed to disk, then renamed. UserError when the disk is full or not writable.
void write_atomically(const std::filesystem::path& path, std::string_view content);

/// SHA-256 in lower-case hex: the name of a content-addressed artefact.
std::string sha256_hex(std::string_view content);

}  // namespace aoizora
