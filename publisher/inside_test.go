package publisher

// KeepOpen sets how many queues stay open without work.
func (p *Publisher) KeepOpen(n int) { p.most = n }

// Open returns how many queues are open.
func (p *Publisher) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}
