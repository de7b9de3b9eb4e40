package ledger

// Waiting returns how many consumers wait for jobs.
func (l *Ledger) Waiting() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.line.waiting)
}
