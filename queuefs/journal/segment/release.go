package segment

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"

	"cutie/queuefs/durable"
)

// keepSpares is how many released segment files wait to be used again.
const keepSpares = 4

// Release lets go of all segments before number. What is beyond the spares
// kept is removed. They go oldest first, so that what a crash or an error
// leaves begins anywhere but has no hole; the next Release does the rest.
func (l *Log) Release(number uint64) error {
	l.releasing.Lock()
	defer l.releasing.Unlock()
	l.mu.Lock()
	var gone []*segment
	for n, s := range l.live {
		if n < number && s != l.cur {
			delete(l.live, n)
			gone = append(gone, s)
		}
	}
	room := keepSpares - len(l.spares)
	l.mu.Unlock()
	for _, s := range gone {
		s.close()
	}
	l.gone = append(l.gone, gone...)
	slices.SortFunc(l.gone, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	for len(l.gone) > 0 {
		s := l.gone[0]
		if room > 0 && s.size == l.segSize && !s.aside {
			spare := durable.TempPrefix + "spare-" + s.name
			if err := l.dir.Rename(s.name, l.dir, spare); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			} else if err == nil {
				room--
				l.mu.Lock()
				l.spares = append(l.spares, spare)
				l.mu.Unlock()
			}
		} else if err := l.dir.Remove(s.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		l.gone = l.gone[1:]
		l.unready.Store(false) // there is room now
	}
	return nil
}
