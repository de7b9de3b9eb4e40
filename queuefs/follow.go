package queuefs

// A Follower derives something from the events of all queues: the publisher derives
// documents, callbacks derive messages. The engine calls its followers in turn around each
// checkpoint, and when a queue goes. It keeps a record until all of them have it on stable
// storage.
//
// Flush brings it up to the last event, as files that need not be synced; Synced is called
// when they are on stable storage, and then the journal up to there may be released.
type Follower interface {
	Flush() error
	Synced() error
}

// A Forgetter is a [Follower] with something for each queue. Forget is called
// after a queue was removed, and before one of the same name is made:
// everything known under the name is of another queue. It may be called again,
// and never during Flush or Synced.
type Forgetter interface {
	Forget(queue string) error
}

// followers are several followers as one, called in turn.
type followers []Follower

// Flush calls each in turn, up to the first error; so does Synced.
func (fs followers) Flush() error {
	for _, f := range fs {
		if err := f.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// Synced is as Flush.
func (fs followers) Synced() error {
	for _, f := range fs {
		if err := f.Synced(); err != nil {
			return err
		}
	}
	return nil
}

// Forget calls the [Forgetter]s.
func (fs followers) Forget(queue string) error {
	for _, f := range fs {
		if f, ok := f.(Forgetter); ok {
			if err := f.Forget(queue); err != nil {
				return err
			}
		}
	}
	return nil
}
