#include "leat/python/readers/socket_source.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>
#include <utility>

#include "leat/csp/error.h"
#include "leat/csp/io.h"
#include "leat/csp/mutex.h"
#include "leat/csp/notification.h"

namespace leat::python {

using feeder::BatchFill;
using feeder::DType;
using feeder::FilledBatch;
using feeder::PlacedTensor;

namespace {

static_assert(std::endian::native == std::endian::little);

enum Asked : std::uint32_t { kFill = 1, kGrown = 2, kDropped = 3 };
enum Answered : std::uint32_t { kFilled = 1, kGrow = 2, kFailed = 3, kEnd = 4, kDied = 5 };
enum Keys : std::uint32_t { kNumbers = 0, kNone = 2 };

constexpr std::uint64_t kNoSample = ~std::uint64_t{0};

// In the order of leat/readers/fill.py.
constexpr std::array kDTypes{DType::kUint8,   DType::kInt8,     DType::kUint16,  DType::kInt16,
                             DType::kUint32,  DType::kInt32,    DType::kUint64,  DType::kInt64,
                             DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64,
                             DType::kBool};

// Reads what a reader has written, from front to back.
class Text {
 public:
  explicit Text(std::span<const std::byte> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool is_over() const noexcept { return at_ == bytes_.size(); }
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, part(sizeof value).data(), sizeof value);
    return value;
  }
  std::string take(std::size_t bytes) {
    const auto text = part(bytes);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }
  void skip(std::size_t bytes) { static_cast<void>(part(bytes)); }
  // Ends a part that begins at a multiple of 8.
  void align() { skip((8 - at_ % 8) % 8); }

 private:
  std::span<const std::byte> part(std::size_t bytes) {
    if (bytes > bytes_.size() - at_) throw Error("leat: a reader has described a batch wrongly");
    const std::size_t from = std::exchange(at_, at_ + bytes);
    return bytes_.subspan(from, bytes);
  }
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

std::vector<PlacedTensor> tensors_of(std::span<const std::byte> layout) {
  std::vector<PlacedTensor> tensors;
  Text text(layout);
  while (!text.is_over()) {
    const auto name = text.take<std::uint16_t>();
    const auto dtype = text.take<std::uint8_t>();
    const auto extents = text.take<std::uint8_t>();
    text.skip(4);
    PlacedTensor tensor;
    tensor.offset = text.take<std::uint64_t>();
    text.skip(8);  // its bytes
    if (dtype >= kDTypes.size()) throw Error("leat: a reader has written an unknown type");
    tensor.dtype = kDTypes[dtype];
    for (int i = 0; i < extents; ++i) tensor.shape.push_back(text.take<std::int64_t>());
    tensor.name = text.take(name);
    text.align();
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::string status_text(int status) {
  if (WIFSIGNALED(status)) {
    const char* const name = sigabbrev_np(WTERMSIG(status));
    return std::string("was killed by SIG") + (name != nullptr ? name : "?");
  }
  return "has ended with the exit status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

struct SocketSource::Message {
  std::uint32_t op, slot;
  std::uint64_t request, memory, bytes, epoch, index, seed, first, pass, keys;
  std::uint32_t kind, padding;
};

struct SocketSource::Answer {
  std::uint32_t op, slot;
  std::uint64_t request, rows, at, layout, opaque, failures;
  std::int64_t begin, end, cpu;
  std::uint64_t sample;
};

struct SocketSource::Reader {
  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader();
  int socket = -1;
  std::size_t number = 0;
  Mutex asking;  // guards the three below, and keeps the messages in the order of their numbers
  std::uint64_t request = 0;                    // the latest one's number
  std::shared_ptr<Notification> latest;         // given once that one has ended
  std::map<std::size_t, std::uint64_t> memory;  // that it has mapped, by slot
  // For the request whose turn it is:
  std::string layout_text;  // of the latest batch
  std::shared_ptr<const feeder::BatchLayout> layout;
  std::atomic<std::uint64_t> ended{~std::uint64_t{0}};  // the pass of which it has no more
};

SocketSource::SocketSource(std::string name, std::uint64_t size, std::uint64_t digest, bool bound,
                           std::size_t requests, const std::vector<int>& sockets, bool ordered)
    : name_(std::move(name)),
      size_(size),
      digest_(digest),
      bound_(bound),
      ordered_(ordered),
      requests_(requests) {
  for (const int socket : sockets) {
    auto& reader = readers_.emplace_back(std::make_unique<Reader>());
    reader->number = readers_.size() - 1;
    reader->socket = fcntl(socket, F_DUPFD_CLOEXEC, 0);
    if (reader->socket >= 0) continue;
    throw std::system_error(errno, std::generic_category(), "leat: a socket to a reader");
  }
}

SocketSource::~SocketSource() = default;

SocketSource::Reader::~Reader() {
  if (socket >= 0) close_descriptor(socket);
}

bool SocketSource::has_ended(std::size_t reader, std::uint64_t pass) const noexcept {
  return readers_[reader]->ended.load(std::memory_order_relaxed) == pass;
}

void SocketSource::send(Reader& reader, const Message& message, int descriptor) {
  iovec part{const_cast<Message*>(&message), sizeof message};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof descriptor)> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const passed = CMSG_FIRSTHDR(&header);
    passed->cmsg_level = SOL_SOCKET;
    passed->cmsg_type = SCM_RIGHTS;
    passed->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(passed), &descriptor, sizeof descriptor);
  }
  while (sendmsg(reader.socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EPIPE || errno == ECONNRESET) return;  // receive() tells why
    if (errno != EAGAIN && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "leat: a message to a reader");
    }
    if (errno == EAGAIN) await_writable(reader.socket);
  }
}

SocketSource::Answer SocketSource::receive(Reader& reader) {
  Answer answer{};
  for (;;) {
    const ssize_t got = recv(reader.socket, &answer, sizeof answer, MSG_DONTWAIT);
    if (got == sizeof answer) return answer;
    if (got == 0) {
      throw Error("leat: reader " + std::to_string(reader.number) +
                  " has ended, with the process that started it");
    }
    if (got > 0) throw Error("leat: a message of a reader is not as it should be");
    if (errno == EAGAIN) {
      await_readable(reader.socket);
    } else if (errno != EINTR && errno != ECONNRESET) {  // a message that it has sent may follow
      throw std::system_error(errno, std::generic_category(), "leat: a message of a reader");
    }
  }
}

void SocketSource::fail_died(const Reader& reader, const BatchFill& batch,
                             const Answer& answer) const {
  std::string text = "leat: reader " + std::to_string(reader.number) + " " +
                     status_text(static_cast<int>(answer.sample)) + " while it made batch " +
                     std::to_string(batch.index()) + " of epoch " + std::to_string(batch.epoch());
  if (answer.rows < batch.samples().size()) {
    text += ", at sample " + std::to_string(batch.samples()[answer.rows]);
  } else if (!bound_) {
    text += ", at its row " + std::to_string(answer.rows);
  }
  throw Error(text);
}

void SocketSource::fill(BatchFill& batch) const {
  Reader& reader = *readers_[batch.reader()];
  if (bound_ && has_ended(batch.reader(), batch.pass())) return batch.skip();
  const auto drawn = std::as_bytes(std::span(batch.drawn().bytes));
  const bool is_numbered = !batch.samples().empty();
  const auto keys = is_numbered ? std::as_bytes(batch.samples()) : drawn;
  batch.grow(std::max<std::size_t>(keys.size(), 1));
  std::ranges::copy(keys, batch.memory().begin());
  Message message{.op = kFill,
                  .slot = static_cast<std::uint32_t>(batch.slot()),
                  .request = 0,
                  .memory = 0,
                  .bytes = 0,
                  .epoch = batch.epoch(),
                  .index = batch.index(),
                  .seed = batch.seed(),
                  .first = batch.first(),
                  .pass = batch.pass(),
                  .keys = keys.size(),
                  .kind = is_numbered ? kNumbers
                          : bound_    ? kNone
                                      : batch.drawn().kind,
                  .padding = 0};
  // Answers come in the order of the requests: the turns of those who wait for them form a chain.
  struct Turn {
    const std::shared_ptr<Notification> ends = std::make_shared<Notification>();
    ~Turn() { ends->notify(); }
  } turn;
  std::shared_ptr<Notification> before;
  try {
    {
      const std::scoped_lock lock(reader.asking);
      message.request = ++reader.request;
      before = std::exchange(reader.latest, turn.ends);
      ask(reader, message, batch);
    }
    if (before != nullptr) before->wait();
    while (!take(batch, reader, receive(reader), message)) {
    }
  } catch (...) {
    message.op = kDropped;
    send(reader, message, -1);
    throw;
  }
}

// Sends the message with the batch's memory.
void SocketSource::ask(Reader& reader, Message& message, const BatchFill& batch) {
  message.memory = batch.memory_number();
  message.bytes = batch.memory().size();
  std::uint64_t& mapped = reader.memory[batch.slot()];
  const bool is_new = std::exchange(mapped, message.memory) != message.memory;
  send(reader, message, is_new ? batch.descriptor() : -1);
}

// Returns whether `answer` ends the batch.
bool SocketSource::take(BatchFill& batch, Reader& reader, const Answer& answer,
                        Message& message) const {
  if (answer.op == kDied) fail_died(reader, batch, answer);
  if (answer.request != message.request) return false;  // dropped
  switch (answer.op) {
    case kGrow: {
      batch.grow(static_cast<std::size_t>(answer.at));
      message.op = kGrown;
      const std::scoped_lock lock(reader.asking);
      ask(reader, message, batch);
      return false;
    }
    case kFilled: batch.filled(filled(reader, answer, batch.memory())); return true;
    case kEnd:
      reader.ended.store(batch.pass(), std::memory_order_relaxed);
      batch.skip();
      return true;
    case kFailed: {
      Text text(batch.memory());
      text.skip(answer.at);
      batch.fail("reader " + std::to_string(reader.number) + " has raised",
                 text.take(answer.opaque),
                 answer.sample == kNoSample ? std::nullopt : std::optional(answer.sample));
    }
    default: throw Error("leat: a message of a reader is not as it should be");
  }
}

FilledBatch SocketSource::filled(Reader& reader, const Answer& answer,
                                 std::span<const std::byte> slot) {
  Text text(slot);
  text.skip(answer.at);
  const std::string layout = text.take(answer.layout);
  if (reader.layout == nullptr || layout != reader.layout_text) {
    reader.layout = feeder::layout_of(tensors_of(std::as_bytes(std::span(layout))));
    reader.layout_text = layout;
  }
  FilledBatch batch;
  batch.layout = reader.layout;
  batch.rows = answer.rows;
  batch.opaque = text.take(answer.opaque);
  const std::string failed = text.take(answer.failures);
  for (Text failures(std::as_bytes(std::span(failed))); !failures.is_over(); failures.align()) {
    const auto sample = failures.take<std::uint64_t>();
    const auto bytes = failures.take<std::uint32_t>();
    failures.skip(4);
    batch.failed.emplace_back(sample, failures.take(bytes));
  }
  const auto instant = [](std::int64_t nanoseconds) {
    return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::nanoseconds(nanoseconds)));
  };
  batch.times = {.begin = instant(answer.begin),
                 .end = instant(answer.end),
                 .cpu = std::chrono::nanoseconds(answer.cpu)};
  return batch;
}

}  // namespace leat::python
