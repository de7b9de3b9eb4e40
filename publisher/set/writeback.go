package set

import (
	"cutie/publisher/names"
	"cutie/queuefs/durable"
)

// leastBack is from how many new bytes on the system is asked to write them.
const leastBack = 1 << 20

// sent is how much of the growing files of the open list the system was asked to write.
type sent struct{ text, pack int64 }

// WriteBack has the system write the growth of the open list and its package, and
// waits for nothing. The syncs that close a list run with mu held, and are short then.
func (s *Set) WriteBack() {
	s.mu.Lock()
	first, text, pack, was := s.at.First, s.at.Length, s.at.Pack.Length, s.sent
	if text-was.text < leastBack && pack-was.pack < leastBack {
		s.mu.Unlock()
		return
	}
	s.sent = sent{text, max(pack, was.pack)}
	s.mu.Unlock()
	d, err := s.dir()
	if err != nil {
		return
	}
	defer d.Close()
	for _, of := range []struct {
		name     string
		from, to int64
	}{{names.EntriesFile(first), was.text, text}, {names.OpenPackageFile(first), was.pack, pack}} {
		if of.to <= of.from {
			continue
		}
		if file, err := d.Open(of.name); err == nil { // else the list is closed by now
			durable.WriteBack(file, of.from, of.to)
			file.Close()
		}
	}
}
