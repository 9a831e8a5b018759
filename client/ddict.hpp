/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddict.hpp - the distributed dictionary of a Slurm job, for C++17. Header only; link with -lddict.
 *
 *     ddict::Dict d;                                         the job's dictionary
 *     ddict::DDict<std::string, double> losses(d);           keys str, values float
 *     losses["rank 0"] = 0.5;
 *     double x = losses["rank 0"];                           KeyError where there is none
 *
 *     d.put(std::tuple("grid", 7), ddict::ArrayRef{p, {rows, columns}});   p is not copied
 *     auto w = d.view_array<double>(std::tuple("grid", 7));  in place, read only, while w lives
 *     use(w.data(), w.shape(), w(0, 1));
 *
 * Keys and values are those of ddict_values.hpp, and the same in Python, C and Fortran. Calls do what
 * the calls of ddict.h do that they are named after, and its rules hold: how long a call may take,
 * threads, fork, what is known after a failure. A failure is an exception derived from ddict::Error.
 *
 * A Dict can be moved; any number of threads may use it. Views may outlive it. Queues with waits,
 * semaphores and barriers are in ddict_sync.hpp.
 */
#ifndef DDICT_HPP
#define DDICT_HPP

#include <ddict_values.hpp>

#include <chrono>
#include <memory>
#include <optional>

namespace ddict {

using Milliseconds = std::chrono::milliseconds;
/* $DDICT_TIMEOUT seconds, else 60 s */
inline constexpr Milliseconds default_timeout{-1};

namespace detail {

inline int ms_of(Milliseconds time) {
    constexpr auto most = std::numeric_limits<int>::max();
    return time.count() < 0 ? -1 : time.count() > most ? most : static_cast<int>(time.count());
}

/* `struct`: the call of that name hides the type */
inline constexpr struct ddict_view no_view {};

/* Nobody has the key. KeyLostError is told all the same: it is not known what the key had. */
inline bool absent(int rc) {
    return rc == DDICT_ENOKEY;
}

/* Two pieces as one, which lies in room. */
inline iovec join(const iovec *iov, std::string &room) {
    room.reserve(iov[0].iov_len + iov[1].iov_len);
    for (int i = 0; i < 2; i++)
        if (iov[i].iov_len > 0)
            room.append(static_cast<const char *>(iov[i].iov_base), iov[i].iov_len);
    return {room.data(), room.size()};
}

} // namespace detail

/* A value in place: read only, and unchanged while this lives. */
class View {
  public:
    View() = default;
    explicit View(const struct ddict_view &v) noexcept : v_(v) { /* which it releases */
    }
    View(View &&other) noexcept : v_(std::exchange(other.v_, detail::no_view)) {
    }
    View &operator=(View &&other) noexcept {
        std::swap(v_, other.v_);
        return *this;
    }
    ~View() {
        ddict_release(&v_);
    }
    const void *data() const noexcept {
        return v_.data;
    }
    std::size_t size() const noexcept { /* bytes */
        return v_.len;
    }
    unsigned tag() const noexcept {
        return v_.tag;
    }
    std::uint64_t version() const noexcept {
        return v_.version;
    }
    /* The value: a copy. */
    template <class V> V as() const {
        return Value<V>::get(v_);
    }
    const struct ddict_view &get() const noexcept {
        return v_;
    }

  private:
    struct ddict_view v_ = detail::no_view;
};

/* An array in place. */
template <class T> class ArrayView {
  public:
    explicit ArrayView(View view)
        : view_(std::move(view)), a_(detail::array_get<T>(view_.get())),
          shape_(a_.shape, a_.shape + a_.dims) {
    }
    const T *data() const noexcept {
        return static_cast<const T *>(a_.data);
    }
    std::size_t size() const noexcept { /* elements */
        return a_.count;
    }
    const Shape &shape() const noexcept {
        return shape_;
    }
    Span<const T> span() const noexcept {
        return {data(), size()};
    }
    const T *begin() const noexcept {
        return data();
    }
    const T *end() const noexcept {
        return data() + size();
    }
    const T &operator[](std::size_t i) const { /* in C order */
        return data()[i];
    }
    /* a(row, column): std::out_of_range outside */
    template <class... I> const T &operator()(I... index) const {
        return data()[detail::offset(shape_, {static_cast<std::size_t>(index)...})];
    }
    std::uint64_t version() const noexcept {
        return view_.version();
    }

  private:
    View view_;
    ddict_array a_;
    Shape shape_;
};

/* The dictionary, with keys and values of any type. */
class Dict {
  public:
    /* name "": the job's own. timeout: of every call, where the call does not say another. */
    explicit Dict(const std::string &name = "", Milliseconds timeout = default_timeout)
        : ms_(detail::ms_of(timeout)) {
        ddict_t *d = nullptr;
        detail::check(ddict_attach(&d, name.empty() ? nullptr : name.c_str(), ms_));
        d_.reset(d, ddict_detach);
    }

    /* --- one key --- */

    template <class V> void put(const Key &key, const V &value) {
        detail::check(store(key, value, 0));
    }
    /* The value lies on a manager of this node (DDICT_NEAR). */
    template <class V> void put_near(const Key &key, const V &value) {
        detail::check(store(key, value, DDICT_NEAR));
    }
    /* Store it only if the key is absent (put_new) or present. False: it was not so. */
    template <class V> bool put_new(const Key &key, const V &value) {
        int rc = store(key, value, DDICT_NEW);
        return rc == DDICT_EEXISTS ? false : detail::check(rc) == 0;
    }
    template <class V> bool put_existing(const Key &key, const V &value) {
        int rc = store(key, value, DDICT_EXISTING);
        return detail::absent(rc) ? false : detail::check(rc) == 0;
    }
    template <class V> V get(const Key &key) const {
        return view(key).template as<V>();
    }
    template <class V> V get(const Key &key, V otherwise) const {
        auto v = find(key);
        return v ? v->template as<V>() : std::move(otherwise);
    }
    /* Wait until the key is there: TimeoutError when it did not come in time. */
    template <class V> V wait(const Key &key, Milliseconds timeout) const {
        struct ddict_view v;
        int rc = view_wait(key, v, timeout);
        if (detail::absent(rc))
            throw TimeoutError(-ETIMEDOUT, "the key did not come in time");
        detail::check(rc);
        return View(v).template as<V>();
    }
    View view(const Key &key) const {
        struct ddict_view v;
        detail::check(::ddict_view(d_.get(), key.data(), key.size(), &v, 0, ms_));
        return View(v);
    }
    /* Nothing where the key is absent. */
    std::optional<View> find(const Key &key) const {
        struct ddict_view v;
        int rc = ::ddict_view(d_.get(), key.data(), key.size(), &v, 0, ms_);
        if (detail::absent(rc))
            return std::nullopt;
        detail::check(rc);
        return View(v);
    }
    template <class T> ArrayView<T> view_array(const Key &key) const {
        return ArrayView<T>(view(key));
    }
    bool contains(const Key &key) const {
        return detail::check(ddict_contains(d_.get(), key.data(), key.size(), nullptr, ms_)) == 1;
    }
    /* Whether the key was there. */
    bool erase(const Key &key) {
        int rc = ddict_del(d_.get(), key.data(), key.size(), ms_);
        return detail::absent(rc) ? false : detail::check(rc) == 0;
    }
    /* Remove the key and give its value; of a queue its first one. */
    View pop_view(const Key &key) {
        struct ddict_view v;
        detail::check(ddict_pop(d_.get(), key.data(), key.size(), &v, 0, ms_));
        return View(v);
    }
    template <class V> V pop(const Key &key) {
        return pop_view(key).template as<V>();
    }
    /* A queue: store a value behind the last one of the key. */
    template <class V> void push(const Key &key, const V &value) {
        ddict_value v;
        Value<V>::put(v, value);
        detail::check(ddict_pushv(d_.get(), key.data(), key.size(), v.iov, v.n, v.flags, 0, ms_));
    }

    /* Add to an integer, which is 0 at first; the sum. */
    std::int64_t add(const Key &key, std::int64_t delta = 1) {
        std::int64_t sum = 0;
        detail::check(ddict_add(d_.get(), key.data(), key.size(), delta, &sum, ms_));
        return sum;
    }
    /* Wait until the key has this value: TimeoutError when it was not seen in time. */
    template <class V> void wait_for(const Key &key, const V &value, Milliseconds timeout) const {
        ddict_value v;
        std::string room;
        Value<V>::put(v, value);
        auto bytes = v.n == 1 ? v.iov[0] : detail::join(v.iov, room);
        detail::check(ddict_wait_for(d_.get(), key.data(), key.size(), bytes.iov_base,
                                     bytes.iov_len, v.flags, detail::ms_of(timeout)));
    }

    /* --- one value on every node (ddict_publish()) --- */

    /* Give it to all nodes in place of the version before; the number of this one. */
    template <class V> std::uint64_t bput(const Key &key, const V &value) {
        ddict_value v;
        std::uint64_t version = 0;
        Value<V>::put(v, value);
        detail::check(
            ddict_publish(d_.get(), key.data(), key.size(), v.iov, v.n, v.flags, &version, ms_));
        return version;
    }
    /* The newest version, from this node: in place, or a copy. KeyError where there is none. */
    View bview(const Key &key) const {
        struct ddict_view v;
        detail::check(ddict_bget(d_.get(), key.data(), key.size(), &v, 0, ms_));
        return View(v);
    }
    template <class V> V bget(const Key &key) const {
        return bview(key).template as<V>();
    }
    /* Remove it from all nodes. Whether it was there. */
    bool unpublish(const Key &key) {
        int rc = ddict_unpublish(d_.get(), key.data(), key.size(), ms_);
        return detail::absent(rc) ? false : detail::check(rc) == 0;
    }

    /* --- all keys --- */

    std::size_t size() const {
        return static_cast<std::size_t>(detail::check(ddict_len(d_.get(), ms_)));
    }
    bool empty() const {
        return size() == 0;
    }
    void clear() {
        detail::check(ddict_clear(d_.get(), ms_));
    }
    /* The keys that are a K; with K = Key all. Those of other types are left out. */
    template <class K = Key> std::vector<K> keys() const {
        return list<K>(-1, {});
    }
    /* Of managers of this node: their values are read in place. */
    template <class K = Key> std::vector<K> local_keys() const {
        return list<K>(-2, {});
    }
    /* Keys that begin with a string, Bytes or the first parts of a tuple. */
    template <class K = Key, class P> std::vector<K> keys_with(const P &prefix) const {
        static_assert(!std::is_integral_v<P>, "an int is no prefix");
        return list<K>(-1, Key(prefix));
    }

    /* --- many keys in one call --- */

    /* pairs: a range of pairs, such as a std::map. If one is refused the others may be stored. Arrays
     * of up to 64 KiB are copied once more than by put(), larger ones travel alone. */
    template <class Pairs> void put_many(const Pairs &pairs) {
        std::deque<Key> keys;
        std::deque<ddict_value> values; /* which do not move */
        std::deque<std::string> joined;
        std::vector<ddict_pair> all;
        for (const auto &[key, value] : pairs) {
            using V = std::decay_t<decltype(value)>;
            auto &v = values.emplace_back();
            auto &k = keys.emplace_back(key);
            Value<V>::put(v, value);
            auto bytes = v.iov[0];
            if (v.n == 2 && v.iov[0].iov_len + v.iov[1].iov_len <= join_max)
                bytes = detail::join(v.iov, joined.emplace_back());
            else if (v.n == 2) {
                put_all(all); /* those before it first: of two with one key the later one wins */
                detail::check(ddict_putv(d_.get(), k.data(), k.size(), v.iov, v.n, v.flags, ms_));
                continue;
            }
            all.push_back({k.data(), k.size(), bytes.iov_base, bytes.iov_len, v.flags, 0});
        }
        put_all(all);
    }
    /* keys: a range of keys. Nothing for each that is absent. */
    template <class V, class Keys> std::vector<std::optional<V>> get_many(const Keys &keys) const {
        std::vector<Key> own(std::begin(keys), std::end(keys));
        std::vector<ddict_want> wants;
        std::vector<View> views(own.size());
        std::vector<std::optional<V>> values(own.size());
        for (const auto &key : own)
            wants.push_back({key.data(), key.size(), {}, 0});
        auto rc = ddict_get_many(d_.get(), wants.data(), wants.size(), 0, ms_);
        for (std::size_t i = 0; rc >= 0 && i < wants.size(); i++)
            if (wants[i].status == 0)
                views[i] = View(wants[i].view);
        detail::check(rc);
        for (std::size_t i = 0; i < wants.size(); i++) {
            if (wants[i].status == 0)
                values[i] = views[i].template as<V>();
            else if (!detail::absent(wants[i].status))
                detail::raise(wants[i].status, ddict_strerror(wants[i].status));
        }
        return values;
    }

    /* --- checkpoints, in a dictionary with a working set (ddict_checkpoint(3)) --- */

    /* How many it keeps; 0: it has none. */
    int working_set() const {
        return ddict_working_set(d_.get(), nullptr);
    }
    void checkpoint() {
        detail::check(ddict_checkpoint(d_.get()));
    }
    void rollback() {
        detail::check(ddict_rollback(d_.get()));
    }
    std::uint64_t checkpoint_id() const {
        return static_cast<std::uint64_t>(detail::check(ddict_checkpoint_id(d_.get())));
    }
    void set_checkpoint_id(std::uint64_t id) {
        detail::check(ddict_set_checkpoint_id(d_.get(), id));
    }
    std::uint64_t sync_to_newest_checkpoint() {
        return static_cast<std::uint64_t>(
            detail::check(ddict_sync_to_newest_checkpoint(d_.get(), ms_)));
    }
    /* With wait_for_keys the value holds at later checkpoints, too. */
    template <class V> void pput(const Key &key, const V &value) {
        detail::check(store(key, value, DDICT_PERSISTENT));
    }

    /* --- about the dictionary --- */

    void freeze() {
        detail::check(ddict_freeze(d_.get(), ms_));
    }
    void unfreeze() {
        detail::check(ddict_unfreeze(d_.get(), ms_));
    }
    bool is_frozen() const {
        return detail::check(ddict_is_frozen(d_.get())) == 1;
    }
    /* --- states on disk, by number: of a dictionary that was started with a folder for them --- */

    void persist(Milliseconds timeout = default_timeout) {
        detail::check(ddict_persist(d_.get(), detail::ms_of(timeout)));
    }
    void persist_as(std::uint64_t id, Milliseconds timeout = default_timeout) {
        detail::check(ddict_persist_as(d_.get(), id, detail::ms_of(timeout)));
    }
    void restore(std::uint64_t id, Milliseconds timeout = default_timeout) {
        detail::check(ddict_restore(d_.get(), id, detail::ms_of(timeout)));
    }
    void advance(Milliseconds timeout = default_timeout) {
        detail::check(ddict_advance(d_.get(), detail::ms_of(timeout)));
    }
    std::vector<std::uint64_t> persisted_ids() const {
        std::uint64_t *ids = nullptr;
        auto n = detail::check(ddict_persisted_ids(d_.get(), &ids, ms_));
        std::unique_ptr<std::uint64_t, decltype(&std::free)> own(ids, std::free);
        return {ids, ids + n};
    }
    /* For calls of ddict.h that this class has not: it stays this object's. */
    ddict_t *handle() const noexcept {
        return d_.get();
    }

  private:
    static constexpr std::size_t join_max = 65536;
    void put_all(std::vector<ddict_pair> &pairs) {
        if (pairs.empty())
            return;
        detail::check(ddict_put_many(d_.get(), pairs.data(), pairs.size(), ms_));
        for (const auto &pair : pairs)
            if (pair.status < 0)
                detail::raise(pair.status, ddict_strerror(pair.status));
        pairs.clear();
    }
    template <class V> int store(const Key &key, const V &value, unsigned flags) {
        ddict_value v;
        Value<V>::put(v, value);
        return ddict_putv(d_.get(), key.data(), key.size(), v.iov, v.n, v.flags | flags, ms_);
    }
    int view_wait(const Key &key, struct ddict_view &v, Milliseconds timeout) const {
        return ::ddict_view(d_.get(), key.data(), key.size(), &v, DDICT_WAIT,
                            detail::ms_of(timeout));
    }
    template <class K> std::vector<K> list(int manager, std::optional<Key> prefix) const {
        ddict_iter_t *it = nullptr;
        detail::check(ddict_iter_open_prefix(d_.get(), manager, prefix ? prefix->data() : nullptr,
                                             prefix ? prefix->size() : 0, &it, ms_));
        std::unique_ptr<ddict_iter_t, decltype(&ddict_iter_close)> own(it, ddict_iter_close);
        std::vector<K> keys;
        const void *key = nullptr;
        std::size_t len = 0;
        while (detail::check(ddict_iter_next(it, &key, &len)) == 1) {
            K k{};
            if (Key::raw(key, len).get(k))
                keys.push_back(std::move(k));
        }
        return keys;
    }
    std::shared_ptr<ddict_t> d_; /* detached with its last user */
    int ms_;
};

/* The dictionary, or what of it has keys K and values V. */
template <class K, class V> class DDict {
  public:
    explicit DDict(Dict d = Dict()) : d_(std::move(d)) {
    }

    /* d[key]: what is assigned is put, what is read is got, KeyError where there is none. */
    class Item {
      public:
        operator V() const {
            return d_.get<V>(key_);
        }
        V value() const {
            return d_.get<V>(key_);
        }
        Item &operator=(const V &value) {
            d_.put(key_, value);
            return *this;
        }
        Item &operator=(const Item &other) {
            return *this = other.value();
        }
        Item(const Item &) = default;

      private:
        friend class DDict;
        Item(Dict &d, const K &key) : d_(d), key_(key) {
        }
        Dict &d_;
        Key key_;
    };
    Item operator[](const K &key) {
        return Item(d_, key);
    }

    void put(const K &key, const V &value) {
        d_.put(key, value);
    }
    void pput(const K &key, const V &value) {
        d_.pput(key, value);
    }
    bool put_new(const K &key, const V &value) {
        return d_.put_new(key, value);
    }
    bool put_existing(const K &key, const V &value) {
        return d_.put_existing(key, value);
    }
    V get(const K &key) const {
        return d_.get<V>(key);
    }
    V get(const K &key, V otherwise) const {
        return d_.get<V>(key, std::move(otherwise));
    }
    V wait(const K &key, Milliseconds timeout) const {
        return d_.wait<V>(key, timeout);
    }
    bool contains(const K &key) const {
        return d_.contains(key);
    }
    bool erase(const K &key) {
        return d_.erase(key);
    }
    V pop(const K &key) {
        return d_.pop<V>(key);
    }
    void push(const K &key, const V &value) {
        d_.push(key, value);
    }
    View view(const K &key) const {
        return d_.view(key);
    }
    std::size_t size() const { /* keys of other types count, too */
        return d_.size();
    }
    void checkpoint() {
        d_.checkpoint();
    }
    void rollback() {
        d_.rollback();
    }
    std::uint64_t checkpoint_id() const {
        return d_.checkpoint_id();
    }
    void set_checkpoint_id(std::uint64_t id) {
        d_.set_checkpoint_id(id);
    }
    std::uint64_t sync_to_newest_checkpoint() {
        return d_.sync_to_newest_checkpoint();
    }
    std::vector<K> keys() const {
        return d_.keys<K>();
    }
    std::vector<K> local_keys() const {
        return d_.local_keys<K>();
    }
    /* Keys that were removed meanwhile are left out. TypeError where a value is no V. */
    std::vector<std::pair<K, V>> items() const {
        auto names = keys();
        auto values = get_many(names);
        std::vector<std::pair<K, V>> all;
        for (std::size_t i = 0; i < names.size(); i++)
            if (values[i])
                all.emplace_back(std::move(names[i]), std::move(*values[i]));
        return all;
    }
    template <class Pairs> void put_many(const Pairs &pairs) {
        d_.put_many(pairs);
    }
    template <class Keys> std::vector<std::optional<V>> get_many(const Keys &keys) const {
        return d_.get_many<V>(keys);
    }
    Dict &dict() noexcept {
        return d_;
    }

  private:
    Dict d_;
};

} // namespace ddict
#endif
