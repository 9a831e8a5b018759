/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddict_sync.hpp - C++17: queues, semaphores and barriers between the processes of a job, on any node.
 *
 *     ddict::Dict d;
 *     ddict::Queue<int> tasks(d, "tasks");          also ddict.Queue("tasks") of Python
 *     tasks.push(7);
 *     std::optional<int> task = tasks.pop(30s);     nothing: none came in time
 *
 *     ddict::Semaphore two(d, "writers", 2);
 *     if (two.acquire(10s)) {
 *         write();
 *         two.release();
 *     }
 *
 *     ddict::Barrier all(d, "step", ranks);
 *     all.wait(60s);                                TimeoutError: not all came
 *
 * Whoever makes one with a name has the same one. Semaphores and barriers are not those of Python,
 * which know who holds them: what a process of C++ holds when it dies stays taken, and a barrier at
 * which it is missing lets nobody pass. Any number of threads may use one.
 *
 * A time that is not given is that of the dictionary ($DDICT_TIMEOUT seconds, else 60 s), of a
 * semaphore or barrier from the last change on. Other failures are exceptions, as in ddict.hpp.
 */
#ifndef DDICT_SYNC_HPP
#define DDICT_SYNC_HPP

#include <ddict.hpp>

namespace ddict {

namespace detail {

/* What is left of a time. */
class Left {
  public:
    explicit Left(Milliseconds time)
        : is_given_(time.count() >= 0), end_(Clock::now() + (is_given_ ? time : Milliseconds(0))) {
    }
    int ms() const {
        using std::chrono::ceil;
        if (!is_given_)
            return -1;
        auto left = ceil<Milliseconds>(end_ - Clock::now());
        return ms_of(left.count() > 0 ? left : Milliseconds(0));
    }

  private:
    using Clock = std::chrono::steady_clock;
    bool is_given_;
    Clock::time_point end_;
};

/* Whether the key had another version than this in time. */
inline bool changes(const Dict &d, const Key &key, std::uint64_t version, const Left &left) {
    int rc = ddict_wait_change(d.handle(), key.data(), key.size(), version, nullptr, left.ms());
    return rc == -ETIMEDOUT ? false : check(rc) == 0;
}

} // namespace detail

/* Values come out in the order in which they went in; each of several takers gets others. */
template <class V> class Queue {
  public:
    /* most: how many values there may be, 0: any number; another one than it has is an Error. */
    explicit Queue(Dict d, const std::string &name, std::uint64_t most = 0)
        : d_(std::move(d)), key_(std::tuple("ddict.Queue", name)), most_(most) {
        detail::check(ddict_queue_open(d_.handle(), key_.data(), key_.size(), most_, nullptr, -1));
    }
    /* Store a value behind the last one. False: there was no room in time. */
    bool push(const V &value, Milliseconds timeout = default_timeout) {
        ddict_value v;
        Value<V>::put(v, value);
        int rc = ddict_pushv(d_.handle(), key_.data(), key_.size(), v.iov, v.n,
                             v.flags | flags(timeout), most_, ms(timeout));
        return rc == -EAGAIN ? false : detail::check(rc) == 0;
    }
    /* Take the first value; nothing: none came in time. TypeError: it was no V; it is gone. */
    std::optional<V> pop(Milliseconds timeout = default_timeout) {
        struct ddict_view v;
        int rc = ddict_pop(d_.handle(), key_.data(), key_.size(), &v, flags(timeout), ms(timeout));
        if (detail::absent(rc))
            return std::nullopt;
        detail::check(rc);
        return View(v).template as<V>();
    }
    std::size_t size() const {
        auto n = ddict_queued(d_.handle(), key_.data(), key_.size(), -1);
        return static_cast<std::size_t>(detail::check(n));
    }

  private:
    /* Without time the manager is asked all the same. */
    static unsigned flags(Milliseconds timeout) {
        return timeout.count() == 0 ? 0 : DDICT_WAIT | DDICT_SURE;
    }
    static int ms(Milliseconds timeout) {
        return timeout.count() == 0 ? -1 : detail::ms_of(timeout);
    }
    Dict d_;
    Key key_;
    std::uint64_t most_;
};

/* A number that acquire() makes smaller, and that is never below 0. */
class Semaphore {
  public:
    /* value: what it begins with; if it is there already, it stays as it is. */
    Semaphore(Dict d, const std::string &name, std::int64_t value = 1)
        : d_(std::move(d)), key_(std::tuple("ddict.cpp.Semaphore", name)) {
        d_.put_new(key_, value);
    }
    /* False: it was 0 all the time. */
    bool acquire(Milliseconds timeout = default_timeout) {
        detail::Left left(timeout);
        for (;;) {
            auto now = d_.view(key_);
            auto value = now.as<std::int64_t>();
            if (value > 0 && take(value, now.version()))
                return true;
            if (value <= 0 && !detail::changes(d_, key_, now.version(), left))
                return false;
        }
    }
    void release(std::int64_t n = 1) {
        d_.add(key_, n);
    }
    std::int64_t value() const {
        return d_.get<std::int64_t>(key_);
    }

  private:
    bool take(std::int64_t value, std::uint64_t version) {
        ddict_value v;
        ddict_value_int(&v, value - 1);
        int rc = ddict_put_if(d_.handle(), key_.data(), key_.size(), v.iov[0].iov_base,
                              v.iov[0].iov_len, v.flags, version, nullptr, -1);
        return rc == DDICT_ECHANGED ? false : detail::check(rc) == 0;
    }
    Dict d_;
    Key key_;
};

/* Who waits goes on when so many have come, again and again. */
class Barrier {
  public:
    Barrier(Dict d, const std::string &name, std::int64_t parties)
        : d_(std::move(d)), key_(std::tuple("ddict.cpp.Barrier", name)), parties_(parties) {
        if (parties < 1)
            throw Error(-EINVAL, "a barrier is for one process at least");
    }
    /* After a TimeoutError the barrier has counted this process, and is of no more use. */
    void wait(Milliseconds timeout = default_timeout) {
        detail::Left left(timeout);
        auto mine = d_.add(key_, 1);
        auto whole = (mine + parties_ - 1) / parties_ * parties_; /* of this round */
        for (;;) {
            auto now = d_.view(key_);
            if (now.as<std::int64_t>() >= whole)
                return;
            if (!detail::changes(d_, key_, now.version(), left))
                throw TimeoutError(-ETIMEDOUT, "not all came to the barrier in time");
        }
    }

  private:
    Dict d_;
    Key key_;
    std::int64_t parties_;
};

} // namespace ddict
#endif
