#include "aoizora/base/file.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>

#include "aoizora/base/error.h"

namespace aoizora {
namespace {

using Archive = std::unique_ptr<archive, decltype(&archive_read_free)>;

[[noreturn]] void archive_error(const std::filesystem::path& path, archive* reader) {
  const char* reason = archive_error_string(reader);
  user_error("{}: cannot be read: {}", path.string(), reason ? reason : "unknown reason");
}

Archive open_filtered(const std::filesystem::path& path) {
  Archive reader(archive_read_new(), &archive_read_free);
  AOIZORA_CHECK(reader != nullptr, "libarchive gave no reader");
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_filter_xz(reader.get());
  archive_read_support_filter_zstd(reader.get());
  archive_read_support_format_raw(reader.get());
  archive_read_support_format_empty(reader.get());
  constexpr std::size_t block = 1 << 16;
  const int opened = path == "-" ? archive_read_open_fd(reader.get(), STDIN_FILENO, block)
                                 : archive_read_open_filename(reader.get(), path.c_str(), block);
  if (opened != ARCHIVE_OK) archive_error(path, reader.get());
  return reader;
}

struct Descriptor {
  int fd = -1;
  explicit Descriptor(int value) : fd(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

void write_all(int fd, std::string_view content, const std::filesystem::path& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) user_error("{}: cannot be written: {}", path.string(), std::strerror(errno));
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Makes the rename itself durable: without this a crash could bring the old directory entry back.
void sync_folder(const std::filesystem::path& folder) {
  const Descriptor descriptor(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.fd >= 0) ::fsync(descriptor.fd);
}

}  // namespace

std::string read_text(const std::filesystem::path& path, std::size_t limit) {
  if (path != "-" && std::filesystem::is_directory(path)) user_error("{}: is a directory", path.string());
  const Archive reader = open_filtered(path);
  archive_entry* entry = nullptr;
  const int header = archive_read_next_header(reader.get(), &entry);
  if (header == ARCHIVE_EOF) return {};
  if (header != ARCHIVE_OK) archive_error(path, reader.get());

  std::string text;
  std::array<char, 1 << 16> buffer{};
  while (true) {
    const la_ssize_t got = archive_read_data(reader.get(), buffer.data(), buffer.size());
    if (got == 0) return text;
    if (got < 0) archive_error(path, reader.get());
    if (text.size() + static_cast<std::size_t>(got) > limit) {
      user_error("{}: is larger than {} bytes", path.string(), limit);
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

void write_atomically(const std::filesystem::path& path, std::string_view content) {
  static std::atomic<unsigned> counter{0};
  // Process id and counter: two writers of one artefact never share a temporary.
  const std::filesystem::path temporary =
      fmt::format("{}.{}.{}.tmp", path.string(), ::getpid(), counter.fetch_add(1));
  {
    const Descriptor out(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (out.fd < 0) user_error("{}: cannot be created: {}", temporary.string(), std::strerror(errno));
    try {
      write_all(out.fd, content, path);
      if (::fsync(out.fd) != 0) user_error("{}: cannot be written: {}", path.string(), std::strerror(errno));
    } catch (...) {
      ::unlink(temporary.c_str());
      throw;
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    user_error("{}: cannot be written: {}", path.string(), std::strerror(reason));
  }
  sync_folder(path.parent_path());
}

std::string sha256_hex(std::string_view content) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  const int done = EVP_Digest(content.data(), content.size(), digest.data(), &length, EVP_sha256(), nullptr);
  AOIZORA_CHECK(done == 1, "SHA-256 failed");
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace aoizora
