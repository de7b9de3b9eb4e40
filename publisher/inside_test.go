package publisher

// Verify is a pass of Scrub at once.
func (p *Publisher) Verify() { p.scrubAll(func(int64) bool { return true }) }

// KeepOpen sets how many queues stay open without work.
func (p *Publisher) KeepOpen(n int) { p.most = n }

// Open returns how many queues are open.
func (p *Publisher) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// CloseOld closes the lists that are old, and makes nothing of them.
func (p *Publisher) CloseOld() error {
	_, err := p.closeOld()
	return err
}
