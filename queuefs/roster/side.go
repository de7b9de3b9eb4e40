package roster

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// eachWorker is how many queues make a further processor worth it.
const eachWorker = 200

// SideBySide calls do for those of 0 to n-1 that stand apart, on all processors, if there
// are many. It returns the others in their order.
func SideBySide(n int, apart func(i int) bool, do func(i int)) (rest []int) {
	done := make([]bool, n)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n/eachWorker) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if apart(i) {
					do(i)
					done[i] = true
				}
			}
		})
	}
	workers.Wait()
	for i := range n {
		if !done[i] {
			rest = append(rest, i)
		}
	}
	return rest
}
