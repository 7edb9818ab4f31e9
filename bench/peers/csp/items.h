// How the values of a channel end; and the problems of problems.h whose values are large: 64 bytes,
// 4 KiB, buffers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "peer.h"

namespace peer {

inline constexpr std::uint64_t kLast = ~std::uint64_t{0};

template <class Channel>
concept Closable = requires(Channel& channel) {
  channel.close();
};

/// Calls f with each of the values of one sender, which are n, and ends with end_values().
template <class Channel, class F>
void receive(Channel& from, std::int64_t n, const F& f) {
  if constexpr (Closable<Channel>) {
    for (auto& value : from) f(value);
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      auto value = from.recv();
      f(value);
    }
  }
}
template <class Channel>
void end_values(Channel& to) {
  if constexpr (Closable<Channel>) to.close();
}

/// The same with any number of values; end_drains() ends so many of them. Where a channel cannot be
/// closed, each gets a last value.
template <class Channel, class F>
void drain(Channel& from, const F& f) {
  if constexpr (Closable<Channel>) {
    for (auto& value : from) f(value);
  } else {
    for (std::uint64_t value = 0; (value = from.recv()) != kLast;) f(value);
  }
}
template <class Channel>
void end_drains(Channel& to, std::int64_t receivers) {
  end_values(to);
  for (std::int64_t i = 0; i < receivers && !Closable<Channel>; ++i) to.send(kLast);
}

/// Sends 0, 1, ... n - 1.
template <class Channel>
void send_below(Channel& to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to.send(static_cast<std::uint64_t>(i));
  end_values(to);
}

struct Page {
  std::array<std::uint64_t, 512> words;
};

template <class P>
Time items_of_4_kib(std::int64_t n) {
  typename P::template Stream<Page> pages(16);
  typename P::Tasks sender;
  EndsInOrder received;
  const auto start = Clock::now();
  sender.go([&] {
    Page page{};
    for (std::int64_t i = 0; i < n; ++i) {
      page.words.front() = page.words.back() = static_cast<std::uint64_t>(i);
      opaque(page);
      pages.send(page);
    }
    end_values(pages);
  });
  receive(pages, n, [&](Page& page) {
    opaque(page);
    received.add(page.words.front(), page.words.back());
  });
  const auto elapsed = Clock::now() - start;
  sender.wait();
  check(received.are(n));
  return {n, elapsed};
}

struct Item {
  std::array<std::uint64_t, 8> words;
};

/// Each word is written and read.
template <class P>
Time pipe(std::int64_t n) {
  typename P::template Stream<Item> items(128);
  typename P::Tasks sender;
  std::uint64_t sum = 0;
  const auto start = Clock::now();
  sender.go([&] {
    for (std::int64_t i = 0; i < n; ++i) {
      Item item;
      item.words.fill(static_cast<std::uint64_t>(i));
      opaque(item);
      items.send(item);
    }
    end_values(items);
  });
  receive(items, n, [&](Item& item) {
    opaque(item);
    for (const std::uint64_t word : item.words) sum += word;
  });
  const auto elapsed = Clock::now() - start;
  sender.wait();
  check(sum == 8 * sum_below(n));
  return {n, elapsed};
}

template <class P>
Time pipeline(std::int64_t n) {
  using Link = typename P::template Stream<Item>;
  std::array<std::unique_ptr<Link>, 3> links;
  for (auto& link : links) link = std::make_unique<Link>(128);
  typename P::Tasks stages;
  EndsInOrder received;
  const auto start = Clock::now();
  stages.go([&] {
    for (std::int64_t i = 0; i < n; ++i) {
      Item item;
      item.words.fill(static_cast<std::uint64_t>(i));
      links[0]->send(item);
    }
    end_values(*links[0]);
  });
  for (std::size_t stage = 0; stage < 2; ++stage) {
    stages.go([&, stage] {
      receive(*links[stage], n, [&](Item& item) {
        for (std::uint64_t& word : item.words) ++word;
        links[stage + 1]->send(item);
      });
      end_values(*links[stage + 1]);
    });
  }
  receive(*links[2], n, [&](Item& item) {
    opaque(item);
    received.add(item.words.front() - 2, item.words.back() - 2);
  });
  const auto elapsed = Clock::now() - start;
  stages.wait();
  check(received.are(n));
  return {n, elapsed};
}

using Buffer = std::vector<std::uint64_t>;

template <class P>
Time circulate(std::int64_t n) {
  typename P::template Stream<Buffer> full(4);
  typename P::template Stream<Buffer> empty(4);
  for (int i = 0; i < 4; ++i) empty.send(Buffer((1 << 20) / sizeof(std::uint64_t), 1));
  typename P::Tasks producer;
  EndsInOrder received;
  const auto start = Clock::now();
  producer.go([&] {
    for (std::int64_t i = 0; i < n; ++i) {
      Buffer buffer = empty.recv();
      buffer.front() = buffer.back() = static_cast<std::uint64_t>(i);
      full.send(std::move(buffer));
    }
    end_values(full);
  });
  receive(full, n, [&](Buffer& buffer) {
    received.add(buffer.front(), buffer.back());
    empty.send(std::move(buffer));
  });
  const auto elapsed = Clock::now() - start;
  producer.wait();
  check(received.are(n));
  return {n, elapsed};
}

inline void copy(Buffer& to, const Buffer& from) {
  std::memcpy(to.data(), from.data(), from.size() * sizeof(std::uint64_t));
  opaque(to);
}

template <class P>
Time double_buffer(std::int64_t n, std::int64_t kib, std::int64_t count) {
  struct Pair {
    explicit Pair(std::size_t words) : source(words, 1), target(words, 2) {
      for (int i = 0; i < 2; ++i) empty.send(Buffer(words, 3));
    }
    Buffer source;
    Buffer target;
    typename P::template Stream<Buffer> full{2};
    typename P::template Stream<Buffer> empty{2};
    EndsInOrder received;
  };
  const std::int64_t each = (n + count - 1) / count;
  std::vector<std::unique_ptr<Pair>> pairs;
  for (std::int64_t i = 0; i < count; ++i) {
    pairs.push_back(std::make_unique<Pair>((static_cast<std::size_t>(kib) << 10) / 8));
  }
  typename P::Tasks tasks;
  const auto start = Clock::now();
  for (const auto& owner : pairs) {
    Pair& pair = *owner;
    tasks.go([&pair, each] {
      for (std::int64_t i = 0; i < each; ++i) {
        Buffer buffer = pair.empty.recv();
        pair.source.front() = pair.source.back() = static_cast<std::uint64_t>(i);
        copy(buffer, pair.source);
        pair.full.send(std::move(buffer));
      }
      end_values(pair.full);
    });
    tasks.go([&pair, each] {
      receive(pair.full, each, [&](Buffer& buffer) {
        copy(pair.target, buffer);
        pair.received.add(pair.target.front(), pair.target.back());
        pair.empty.send(std::move(buffer));
      });
    });
  }
  tasks.wait();
  const auto elapsed = Clock::now() - start;
  for (const auto& pair : pairs) check(pair->received.are(each));
  return {each * count, elapsed};
}

}  // namespace peer
