package callback

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cutie/publisher/push"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// secretsName is the file of the secrets, in the home. It is never published.
const secretsName = "callback-secrets.txt"

// minSecret is the length of the shortest secret, in octets.
const minSecret = 16

// Secrets are the keys of signatures, by queue.
type secrets struct {
	mu    sync.Mutex
	of    map[string][]string
	stamp unix.Stat_t // of the file when it was read
}

// load reads the file again if it has changed. There need not be one.
func (s *secrets) load(home *durable.Dir) error {
	st, err := home.Stat(secretsName)
	if errors.Is(err, fs.ErrNotExist) {
		st, err = unix.Stat_t{}, nil
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.Ino == s.stamp.Ino && st.Size == s.stamp.Size && st.Mtim == s.stamp.Mtim && st.Mode == s.stamp.Mode {
		return nil
	}
	of := map[string][]string{}
	if st.Ino != 0 {
		if st.Mode&0o077 != 0 {
			return fmt.Errorf("%s is open to others than its owner; chmod 600 makes it a secret", secretsName)
		}
		data, err := home.ReadFile(secretsName, nil, 1<<20)
		if err != nil {
			return err
		}
		if of, err = parseSecrets(string(data)); err != nil {
			return fmt.Errorf("%s: %w", secretsName, err)
		}
	}
	s.of, s.stamp = of, st
	return nil
}

// parseSecrets reads lines "QUEUE: SECRET"; empty lines and lines after # mean
// nothing. Errors do not show secrets.
func parseSecrets(text string) (map[string][]string, error) {
	of := map[string][]string{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		queue, secret, ok := strings.Cut(line, ":")
		queue, secret = strings.TrimSpace(queue), strings.TrimSpace(secret)
		if !ok {
			return nil, fmt.Errorf("line %d is not QUEUE: SECRET", n)
		}
		if id, err := queuefs.CleanQueueID(queue); err != nil || id != queue {
			return nil, fmt.Errorf("line %d does not begin with the identifier of a queue", n)
		}
		if len(secret) < minSecret {
			return nil, fmt.Errorf("line %d: a secret has at least %d octets", n, minSecret)
		}
		of[queue] = append(of[queue], secret)
	}
	return of, nil
}

// sign returns the signatures of a body, "" if the queue has no secret.
func (s *secrets) sign(queue string, now time.Time, body []byte) string {
	s.mu.Lock()
	keys := s.of[queue]
	s.mu.Unlock()
	if len(keys) == 0 {
		return ""
	}
	t := strconv.FormatInt(now.Unix(), 10)
	sign := "t=" + t
	for _, key := range keys {
		sign += ",v1=" + push.SHA256.HMAC(key, []byte(t+"."), body)
	}
	return sign
}

func (s *secrets) has(queue string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of[queue]) > 0
}
