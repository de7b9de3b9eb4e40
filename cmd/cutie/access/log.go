package access

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"
)

// A Log is a file of entries. Each is written before Add returns, so it survives a kill of
// the process; while the file cannot be written they are gathered for Flush. A file of the
// maximal size gets the time into its name, as in web-access-2026-11-28T18-59-21.000.txt, and
// a new one begins. It is safe for concurrent use.
type Log struct {
	mu     sync.Mutex // of all below
	file   *lumberjack.Logger
	buf    []byte // entries that are not written yet
	failed bool   // the last write: only Flush tries again
	lost   int
	closed bool
}

const maxGather = 512 << 10 // bytes, while the file cannot be written; the smallest file has more

// OpenLog opens a log, or makes it with mode 0600. A file has max bytes, in whole mebibytes; max 0
// lets it grow. keep is the number of old files, at least 1.
func OpenLog(name string, max int64, keep int) (*Log, error) {
	l := &Log{file: newFile(name, max, keep)}
	return l, l.write()
}

func newFile(name string, max int64, keep int) *lumberjack.Logger {
	f := &lumberjack.Logger{Filename: name, MaxSize: int((max + 1<<20 - 1) >> 20), MaxBackups: keep}
	if max == 0 {
		f.MaxSize = math.MaxInt32
	}
	return f
}

// Add adds an entry. An error of the file is returned by the next Flush.
func (l *Log) Add(e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buf) > maxGather || l.closed {
		l.lost++
		return
	}
	l.buf = e.Append(l.buf)
	if !l.failed {
		l.write()
	}
}

// Flush writes the gathered entries. While the file cannot be written, up to half a mebibyte
// waits for the next Flush; the error has the number of lines lost beyond that.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.buf) == 0 && l.lost == 0 {
		return nil
	}
	err := l.write()
	if err == nil && l.lost > 0 {
		err = fmt.Errorf("access log: %d lines were lost while it could not be written", l.lost)
		l.lost = 0
	}
	return err
}

// write opens the file, if it is not, and writes the gathered entries.
func (l *Log) write() error {
	n, err := l.file.Write(l.buf)
	l.buf = append(l.buf[:0], l.buf[n:]...)
	if l.failed = err != nil; l.failed {
		return errors.Join(fmt.Errorf("access log: %w", err), l.file.Close())
	}
	return nil
}

// Limit changes the size of a file and the number of old ones.
func (l *Log) Limit(max int64, keep int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	to := newFile(l.file.Filename, max, keep)
	if to.MaxSize == l.file.MaxSize && to.MaxBackups == l.file.MaxBackups {
		return
	}
	// The library reads its limits without a lock.
	l.failed = l.file.Close() != nil
	l.file = to
}

// Reopen writes the gathered entries and opens the file by its name again, after
// somebody else has moved it.
func (l *Log) Reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	return errors.Join(l.write(), l.file.Close(), l.write())
}

// Close writes the gathered entries and closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return errors.Join(l.write(), l.file.Close())
}

// An Entry is one line of an access log in the Combined Log Format:
//
//	HOST - USER [02/Jan/2006:15:04:05 +0000] "METHOD TARGET PROTO" STATUS OCTETS "REFERER" "AGENT"
//
// An empty field is a hyphen. Octets outside of ASCII, and octets that could end a
// field or a line, become \" \\ or \xhh, so that a line is one line whatever a client
// sends. Fields are cut at 2,048 octets. Values of parameters with names of secrets,
// and passwords in URIs, become redacted. Times are UTC.
type Entry struct {
	Host    string // address of the client
	User    string
	Time    time.Time // when the request came
	Method  string
	Target  string // as it was sent
	Proto   string
	Status  int   // of HTTP
	Octets  int64 // of the body of the answer
	Referer string
	Agent   string
}

// Append adds the line to dst.
func (e *Entry) Append(dst []byte) []byte {
	dst = appendField(dst, e.Host, true)
	dst = append(dst, " - "...)
	dst = appendField(dst, e.User, true)
	dst = append(dst, " ["...)
	dst = e.Time.UTC().AppendFormat(dst, "02/Jan/2006:15:04:05 -0700")
	dst = append(dst, `] "`...)
	dst = appendField(dst, e.Method, true)
	dst = append(dst, ' ')
	dst = appendField(dst, redact(e.Target), true)
	dst = append(dst, ' ')
	dst = appendField(dst, e.Proto, true)
	dst = append(dst, `" `...)
	dst = strconv.AppendInt(dst, int64(e.Status), 10)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, e.Octets, 10)
	dst = append(dst, ` "`...)
	dst = appendField(dst, redact(e.Referer), false)
	dst = append(dst, `" "`...)
	dst = appendField(dst, e.Agent, false)
	return append(dst, '"', '\n')
}

const maxField = 2048

// appendField adds a field so that readers find its end. A word has no blanks in it.
func appendField(dst []byte, s string, word bool) []byte {
	if s == "" {
		return append(dst, '-')
	}
	cut := len(s) > maxField
	if cut {
		s = s[:maxField]
	}
	const hex = "0123456789abcdef"
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c > ' ' && c < 0x7f && c != '"' && c != '\\' || c == ' ' && !word {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		if c == '"' || c == '\\' {
			dst = append(dst, '\\', c)
		} else {
			dst = append(dst, '\\', 'x', hex[c>>4], hex[c&15])
		}
	}
	dst = append(dst, s[from:]...)
	if cut {
		dst = append(dst, "..."...)
	}
	return dst
}

// redact takes secrets out of a URI.
func redact(s string) string {
	place, query, has := strings.Cut(s, "?")
	if before, rest, ok := strings.Cut(place, "://"); ok {
		host, path, _ := strings.Cut(rest, "/")
		if at := strings.LastIndexByte(host, '@'); at >= 0 {
			place = before + "://redacted@" + host[at+1:] + "/" + path
		}
	}
	if !has {
		return place
	}
	clean := make([]byte, 0, 256)
	for rest := query; rest != ""; {
		end := strings.IndexAny(rest, "&;")
		if end < 0 {
			end = len(rest)
		}
		name, _, is := strings.Cut(rest[:end], "=")
		if is && secret(name) {
			clean = append(append(clean, name...), "=redacted"...)
		} else {
			clean = append(clean, rest[:end]...)
		}
		if rest = rest[end:]; rest != "" {
			clean, rest = append(clean, rest[0]), rest[1:]
		}
	}
	if string(clean) == query && len(place)+1+len(query) == len(s) {
		return s
	}
	return place + "?" + string(clean)
}

// secret reports whether the name of a parameter means a secret.
func secret(name string) bool {
	if plain, err := url.QueryUnescape(name); err == nil {
		name = plain
	}
	name = strings.ToLower(name)
	return slices.ContainsFunc(secrets, func(word string) bool { return strings.Contains(name, word) })
}

var secrets = []string{"token", "secret", "passw", "signature", "authorization", "apikey", "api_key", "lease"}
