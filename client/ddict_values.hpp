/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddict_values.hpp - C++17: which types are keys and values, and errors as exceptions. Programs
 * include ddict.hpp, which includes this file.
 *
 *     key          in Python     |   value                          in Python
 *     std::string  str           |   std::string                    str
 *     integers     int           |   integers                       int
 *     tuple, pair  tuple         |   float, double                  float
 *     Bytes        bytes         |   Bytes                          bytes
 *     Key          any of them   |   std::vector<T>, std::array     numpy.ndarray of one dimension
 *                                |   Array<T>, ArrayRef<T>          numpy.ndarray of any shape
 *
 * T is a number, bool or std::complex. const char * and std::string_view are put as std::string.
 * For a type of your own specialize ddict::Value.
 */
#ifndef DDICT_VALUES_HPP
#define DDICT_VALUES_HPP

#include <ddict_values.h>

#include <array>
#include <cerrno>
#include <complex>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace ddict {

/* --- errors --- */

/* Any failure: what() is ddict_errmsg(), code() what the call of C returned. */
class Error : public std::runtime_error {
  public:
    Error(int code, const std::string &text) : std::runtime_error(text), code_(code) {
    }
    int code() const noexcept {
        return code_;
    }

  private:
    int code_;
};
struct KeyError : Error { /* DDICT_ENOKEY */
    using Error::Error;
};
struct KeyLostError : KeyError { /* DDICT_EKEYLOST */
    using KeyError::KeyError;
};
struct TimeoutError : Error { /* -ETIMEDOUT */
    using Error::Error;
};
struct FullError : Error { /* DDICT_EFULL; -EAGAIN of a queue */
    using Error::Error;
};
struct FrozenError : Error { /* DDICT_EFROZEN */
    using Error::Error;
};
struct LostError : Error { /* DDICT_ELOST */
    using Error::Error;
};
struct RetiredError : Error { /* DDICT_ERETIRED */
    using Error::Error;
};
struct GoneError : Error { /* DDICT_EGONE */
    using Error::Error;
};
struct TypeError : Error { /* -EBADMSG: the key or the value is of another type */
    using Error::Error;
};

namespace detail {

[[noreturn]] inline void raise(int code, const std::string &text) {
    switch (code) {
    case DDICT_ENOKEY:
        throw KeyError(code, text);
    case DDICT_EKEYLOST:
        throw KeyLostError(code, text);
    case -ETIMEDOUT:
        throw TimeoutError(code, text);
    case DDICT_EFULL:
    case -EAGAIN:
        throw FullError(code, text);
    case DDICT_EFROZEN:
        throw FrozenError(code, text);
    case DDICT_ELOST:
        throw LostError(code, text);
    case DDICT_EGONE:
        throw GoneError(code, text);
    case DDICT_ERETIRED:
        throw RetiredError(code, text);
    case -EBADMSG:
        throw TypeError(code, text);
    case -ENOMEM:
        throw std::bad_alloc();
    }
    throw Error(code, text);
}

/* A result that is not negative. */
template <class Int> Int check(Int rc) {
    if (rc < 0)
        raise(static_cast<int>(rc), ddict_errmsg());
    return rc;
}

} // namespace detail

/* --- bytes --- */

/* bytes of Python, as a key or a value */
struct Bytes {
    std::string data;
};
inline bool operator==(const Bytes &a, const Bytes &b) {
    return a.data == b.data;
}
inline bool operator!=(const Bytes &a, const Bytes &b) {
    return a.data != b.data;
}
inline bool operator<(const Bytes &a, const Bytes &b) {
    return a.data < b.data;
}

/* --- keys --- */

namespace detail {

using Rooms = std::deque<std::string>; /* text that parts point to */

template <class T>
inline constexpr bool is_text =
    std::is_convertible_v<const T &, std::string_view> && !std::is_null_pointer_v<T>;
template <class T> struct is_tuple : std::false_type {};
template <class... T> struct is_tuple<std::tuple<T...>> : std::true_type {};
template <class A, class B> struct is_tuple<std::pair<A, B>> : std::true_type {};

template <class T> ddict_key_part part_of(const T &key, Rooms &rooms);

template <class T, std::size_t... I>
ddict_key_part part_of_tuple(const T &key, Rooms &rooms, std::index_sequence<I...>) {
    std::array<ddict_key_part, sizeof...(I)> parts{{part_of(std::get<I>(key), rooms)...}};
    std::size_t room = 1;
    for (const auto &part : parts)
        room += 5 + DDICT_KEY_INT_ROOM + part.len;
    auto &text = rooms.emplace_back(room, '\0');
    auto len = check(ddict_key_tuple(text.data(), text.size(), parts.data(), parts.size()));
    return {DDICT_KEY_TUPLE, text.data() + 1, static_cast<std::size_t>(len) - 1, 0};
}

template <class T> ddict_key_part part_of(const T &key, Rooms &rooms) {
    if constexpr (std::is_same_v<T, Bytes>) {
        return {DDICT_KEY_BYTES, key.data.data(), key.data.size(), 0};
    } else if constexpr (is_text<T>) {
        std::string_view text = key;
        return {DDICT_KEY_STR, text.data(), text.size(), 0};
    } else if constexpr (std::is_integral_v<T>) {
        if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8)
            if (key > static_cast<T>(std::numeric_limits<std::int64_t>::max())) {
                auto &text = rooms.emplace_back(std::to_string(key));
                return {DDICT_KEY_BIG, text.data(), text.size(), 0};
            }
        return {DDICT_KEY_INT, nullptr, 0, static_cast<std::int64_t>(key)};
    } else {
        static_assert(is_tuple<T>::value,
                      "a key is a string, an integer, Bytes or a tuple of these");
        return part_of_tuple(key, rooms, std::make_index_sequence<std::tuple_size_v<T>>());
    }
}

/* False: the part is of another type. */
template <class T> bool part_get(const ddict_key_part &part, T &to);

template <class T, std::size_t... I>
bool part_get_tuple(const ddict_key_part &part, T &to, std::index_sequence<I...>) {
    std::array<ddict_key_part, sizeof...(I) + 1> parts;
    return part.kind == DDICT_KEY_TUPLE &&
           ddict_key_parts(&part, parts.data(), sizeof...(I)) == ssize_t{sizeof...(I)} &&
           (part_get(parts[I], std::get<I>(to)) && ...);
}

template <class T> bool part_get(const ddict_key_part &part, T &to) {
    std::string_view text(static_cast<const char *>(part.data), part.len);
    if constexpr (std::is_same_v<T, Bytes>) {
        to.data = text;
        return part.kind == DDICT_KEY_BYTES;
    } else if constexpr (std::is_same_v<T, std::string>) {
        to = text;
        return part.kind == DDICT_KEY_STR;
    } else if constexpr (std::is_integral_v<T>) {
        if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8)
            if (part.kind == DDICT_KEY_BIG && text[0] != '-' && text.size() <= 20) {
                to = static_cast<T>(std::strtoull(std::string(text).c_str(), nullptr, 10));
                return std::to_string(to) == text;
            }
        to = static_cast<T>(part.number);
        return part.kind == DDICT_KEY_INT && static_cast<std::int64_t>(to) == part.number &&
               (to < T{}) == (part.number < 0);
    } else {
        return part_get_tuple(part, to, std::make_index_sequence<std::tuple_size_v<T>>());
    }
}

} // namespace detail

/* A key of any type, as the bytes that the dictionary has. */
class Key {
  public:
    /* of what is a key in C++: Key("w"), Key(7), Key(std::tuple(1, "x")) */
    template <class T, class = std::enable_if_t<!std::is_same_v<T, Key>>> Key(const T &key) {
        detail::Rooms rooms;
        auto part = detail::part_of(key, rooms);
        bytes_.resize(1 + part.len + DDICT_KEY_INT_ROOM);
        bytes_.resize(static_cast<std::size_t>(detail::check(write(part))));
    }
    Key() : bytes_("s") { /* the empty str */
    }
    /* the bytes themselves: a key of another program, that Python calls RawKey */
    static Key raw(const void *data, std::size_t len) {
        Key key;
        key.bytes_.assign(static_cast<const char *>(data), len);
        return key;
    }
    /* Whether it is a key of this type, and that; else TypeError. */
    template <class T> bool is() const {
        T to{};
        return get(to);
    }
    template <class T> T as() const {
        T to{};
        if (!get(to))
            throw TypeError(-EBADMSG, "the key is of another type");
        return to;
    }
    template <class T> bool get(T &to) const {
        if constexpr (std::is_same_v<T, Key>) {
            to = *this;
            return true;
        } else {
            ddict_key_part part;
            return ddict_key_parse(data(), size(), &part) == 0 && detail::part_get(part, to);
        }
    }
    const void *data() const noexcept {
        return bytes_.data();
    }
    std::size_t size() const noexcept {
        return bytes_.size();
    }
    friend bool operator==(const Key &a, const Key &b) {
        return a.bytes_ == b.bytes_;
    }
    friend bool operator!=(const Key &a, const Key &b) {
        return a.bytes_ != b.bytes_;
    }
    friend bool operator<(const Key &a, const Key &b) {
        return a.bytes_ < b.bytes_;
    }

  private:
    ssize_t write(const ddict_key_part &part) {
        auto text = static_cast<const char *>(part.data);
        switch (part.kind) {
        case DDICT_KEY_STR:
            return ddict_key_str(bytes_.data(), bytes_.size(), text, part.len);
        case DDICT_KEY_BYTES:
            return ddict_key_bytes(bytes_.data(), bytes_.size(), text, part.len);
        case DDICT_KEY_INT:
            return ddict_key_int(bytes_.data(), bytes_.size(), part.number);
        case DDICT_KEY_BIG: /* of uint64_t alone */
            return ddict_key_uint(bytes_.data(), bytes_.size(), std::strtoull(text, nullptr, 10));
        }
        bytes_[0] = 't';
        std::memcpy(bytes_.data() + 1, text, part.len);
        return static_cast<ssize_t>(part.len) + 1;
    }
    std::string bytes_;
};

/* --- arrays --- */

/* What std::span of C++20 is. */
template <class T> class Span {
  public:
    Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {
    }
    T *data() const noexcept {
        return data_;
    }
    std::size_t size() const noexcept {
        return size_;
    }
    bool empty() const noexcept {
        return size_ == 0;
    }
    T &operator[](std::size_t i) const {
        return data_[i];
    }
    T *begin() const noexcept {
        return data_;
    }
    T *end() const noexcept {
        return data_ + size_;
    }

  private:
    T *data_;
    std::size_t size_;
};

using Shape = std::vector<std::size_t>;

namespace detail {

template <class T> struct is_complex : std::false_type {};
template <class T> struct is_complex<std::complex<T>> : std::is_floating_point<T> {};

/* numpy's name of an element type; nullptr: none */
template <class T> constexpr const char *type_name() {
    using U = std::remove_cv_t<T>;
    constexpr int size = sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3;
    constexpr const char *of_signed[] = {DDICT_INT8, DDICT_INT16, DDICT_INT32, DDICT_INT64};
    constexpr const char *of_unsigned[] = {DDICT_UINT8, DDICT_UINT16, DDICT_UINT32, DDICT_UINT64};
    if constexpr (std::is_same_v<U, bool>)
        return DDICT_BOOL;
    else if constexpr (std::is_integral_v<U>)
        return std::is_signed_v<U> ? of_signed[size] : of_unsigned[size];
    else if constexpr (std::is_same_v<U, float>)
        return DDICT_FLOAT32;
    else if constexpr (std::is_same_v<U, double>)
        return DDICT_FLOAT64;
    else if constexpr (std::is_same_v<U, std::complex<float>>)
        return DDICT_COMPLEX64;
    else if constexpr (std::is_same_v<U, std::complex<double>>)
        return DDICT_COMPLEX128;
    else
        return nullptr;
}

inline std::size_t offset(const Shape &shape, std::initializer_list<std::size_t> index) {
    std::size_t at = 0, dim = 0;
    if (index.size() != shape.size())
        throw std::out_of_range("an index for each dimension");
    for (std::size_t i : index) {
        if (i >= shape[dim])
            throw std::out_of_range("an index of an array");
        at = at * shape[dim++] + i;
    }
    return at;
}

inline std::size_t elements(const Shape &shape) {
    return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

} // namespace detail

/* Elements of the caller's, in C order, that are to be put: not copied. */
template <class T> struct ArrayRef {
    const T *data;
    Shape shape;
};
template <class T> ArrayRef(const T *, Shape) -> ArrayRef<T>;

/* An array that owns its elements, in C order. */
template <class T> class Array {
  public:
    Array() : shape_{0} {
    }
    explicit Array(Shape shape, const T &fill = T())
        : shape_(std::move(shape)), data_(detail::elements(shape_), fill) {
    }
    Array(Shape shape, std::vector<T> data) : shape_(std::move(shape)), data_(std::move(data)) {
        if (detail::elements(shape_) != data_.size())
            throw std::invalid_argument("an array of another length than its shape");
    }
    const Shape &shape() const noexcept {
        return shape_;
    }
    std::size_t size() const noexcept {
        return data_.size();
    }
    T *data() noexcept {
        return data_.data();
    }
    const T *data() const noexcept {
        return data_.data();
    }
    auto begin() noexcept {
        return data_.begin();
    }
    auto end() noexcept {
        return data_.end();
    }
    auto begin() const noexcept {
        return data_.begin();
    }
    auto end() const noexcept {
        return data_.end();
    }
    /* a(row, column): std::out_of_range outside */
    template <class... I> T &operator()(I... index) {
        return data_[detail::offset(shape_, {static_cast<std::size_t>(index)...})];
    }
    template <class... I> const T &operator()(I... index) const {
        return data_[detail::offset(shape_, {static_cast<std::size_t>(index)...})];
    }
    friend bool operator==(const Array &a, const Array &b) {
        return a.shape_ == b.shape_ && a.data_ == b.data_;
    }
    friend bool operator!=(const Array &a, const Array &b) {
        return !(a == b);
    }

  private:
    static_assert(!std::is_same_v<T, bool>, "an Array<std::uint8_t> has elements in memory");
    Shape shape_;
    std::vector<T> data_;
};

/* --- values --- */

/*
 * How a type is stored. put() fills a ddict_value, which may point into what it is given; get() makes
 * the type of a view that is held, or throws TypeError. Specialize it for types of your own:
 *
 *     template <> struct ddict::Value<Point> {
 *         static void put(ddict_value &v, const Point &p) { ddict_value_bytes(&v, &p, sizeof p); }
 *         static Point get(const struct ddict_view &view);
 *     };
 */
template <class V, class = void> struct Value;

template <class V>
struct Value<V, std::enable_if_t<std::is_integral_v<V> && !std::is_same_v<V, bool>>> {
    static void put(ddict_value &v, V number) {
        if constexpr (std::is_unsigned_v<V> && sizeof(V) == 8)
            if (number > static_cast<V>(std::numeric_limits<std::int64_t>::max()))
                throw std::out_of_range("an int of more than 64 bits with its sign");
        ddict_value_int(&v, static_cast<std::int64_t>(number));
    }
    static V get(const struct ddict_view &view) {
        std::int64_t n = 0;
        detail::check(ddict_read_int(&view, &n));
        if (static_cast<std::int64_t>(static_cast<V>(n)) != n ||
            (static_cast<V>(n) < V{}) != (n < 0))
            throw TypeError(-EBADMSG, std::to_string(n) + " does not fit in the number's type");
        return static_cast<V>(n);
    }
};

template <> struct Value<bool> {
    static void put(ddict_value &v, bool truth) {
        ddict_value_bool(&v, truth);
    }
    static bool get(const struct ddict_view &view) { /* an int that is 0 or 1, too */
        int truth = 0;
        detail::check(ddict_read_bool(&view, &truth));
        return truth != 0;
    }
};

template <class V> struct Value<V, std::enable_if_t<std::is_floating_point_v<V>>> {
    static void put(ddict_value &v, V number) {
        ddict_value_float(&v, static_cast<double>(number));
    }
    static V get(const struct ddict_view &view) {
        double x = 0;
        detail::check(ddict_read_float(&view, &x));
        return static_cast<V>(x);
    }
};

template <class V> struct Value<V, std::enable_if_t<detail::is_text<V>>> {
    static void put(ddict_value &v, std::string_view text) {
        ddict_value_str(&v, text.data(), text.size());
    }
    static std::string get(const struct ddict_view &view) {
        const char *text = nullptr;
        std::size_t len = 0;
        detail::check(ddict_read_str(&view, &text, &len));
        return std::string(text, len);
    }
};

template <> struct Value<Bytes> {
    static void put(ddict_value &v, const Bytes &bytes) {
        ddict_value_bytes(&v, bytes.data.data(), bytes.data.size());
    }
    static Bytes get(const struct ddict_view &view) {
        const void *data = nullptr;
        std::size_t len = 0;
        detail::check(ddict_read_bytes(&view, &data, &len));
        return Bytes{std::string(static_cast<const char *>(data), len)};
    }
};

namespace detail {

template <class T>
void array_put(ddict_value &v, const T *data, const std::size_t *shape, std::size_t dims) {
    static_assert(type_name<T>(), "elements are numbers, bool or std::complex");
    check(ddict_value_array(&v, type_name<T>(), static_cast<unsigned>(dims), shape, data));
}

template <class T> ddict_array array_get(const struct ddict_view &view) {
    static_assert(type_name<T>(), "elements are numbers, bool or std::complex");
    ddict_array a;
    check(ddict_read_array(&view, type_name<T>(), &a));
    return a;
}

template <class T> Span<const T> row_get(const struct ddict_view &view) {
    auto a = array_get<T>(view);
    if (a.dims != 1)
        throw TypeError(-EBADMSG, "the array has " + std::to_string(a.dims) +
                                      " dimensions, not one: Array<T> is of any");
    return {static_cast<const T *>(a.data), a.count};
}

} // namespace detail

template <class T> struct Value<ArrayRef<T>> {
    static void put(ddict_value &v, const ArrayRef<T> &a) {
        detail::array_put(v, a.data, a.shape.data(), a.shape.size());
    }
};

template <class T> struct Value<Array<T>> {
    static void put(ddict_value &v, const Array<T> &a) {
        detail::array_put(v, a.data(), a.shape().data(), a.shape().size());
    }
    static Array<T> get(const struct ddict_view &view) {
        auto a = detail::array_get<T>(view);
        auto data = static_cast<const T *>(a.data);
        return Array<T>(Shape(a.shape, a.shape + a.dims), std::vector<T>(data, data + a.count));
    }
};

template <class T> struct Value<std::vector<T>> {
    static_assert(!std::is_same_v<T, bool>, "a std::vector<bool> has no elements in memory");
    static void put(ddict_value &v, const std::vector<T> &a) {
        std::size_t n = a.size();
        detail::array_put(v, a.data(), &n, 1);
    }
    static std::vector<T> get(const struct ddict_view &view) {
        auto row = detail::row_get<T>(view);
        return std::vector<T>(row.begin(), row.end());
    }
};

template <class T, std::size_t N> struct Value<std::array<T, N>> {
    static void put(ddict_value &v, const std::array<T, N> &a) {
        std::size_t n = N;
        detail::array_put(v, a.data(), &n, 1);
    }
    static std::array<T, N> get(const struct ddict_view &view) {
        auto row = detail::row_get<T>(view);
        std::array<T, N> a;
        if (row.size() != N)
            throw TypeError(-EBADMSG, "the array has " + std::to_string(row.size()) +
                                          " elements, not " + std::to_string(N));
        std::copy(row.begin(), row.end(), a.begin());
        return a;
    }
};

} // namespace ddict
#endif
