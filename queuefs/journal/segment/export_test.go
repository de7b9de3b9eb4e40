package segment

// Current returns the number of the segment that is written.
func (l *Log) Current() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cur().number
}

// Begins returns the segment and the offset of a record.
func (l *Log) Place(i int) (number uint64, off int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.live {
		if i < len(s.records) {
			return s.number, int(s.records[i].off)
		}
		i -= len(s.records)
	}
	panic("no such record")
}
