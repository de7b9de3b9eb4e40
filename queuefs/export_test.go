package queuefs

import (
	"context"

	"cutie/queuefs/index"
)

// PagesInMemory returns how many pages of all indexes take memory.
func (s *Service) PagesInMemory() (n int) {
	for _, q := range s.Queues() {
		q.look(func(x *index.Index) {
			_, full := x.Held()
			n += full
		})
	}
	return n
}

// ImageAhead makes an image of a home in a store now, and waits for it. No files are
// written: they stay behind the image.
func (s *Service) ImageAhead(ctx context.Context) error {
	return s.stored.Images.Now(ctx, func() error { return s.checkpoint(noFiles) })
}

// ImageDue reports whether Maintain is to make an image of a home in a store.
func (s *Service) ImageDue() bool {
	_, image, _, _ := s.due()
	return image
}

// LoadPacks loads the packs from a page on.
func (q *Queue) LoadPacks(page int) { q.content.Packs.Load(page, q.svc.usable) }

// KeyRemembered is how long a job consumed without a lease is given again for its key.
const KeyRemembered = keyRemembered
