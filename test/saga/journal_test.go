// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package saga

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
)

// journal numbers the writes of all processes of a cluster from 1, and ends a process at the write of the fault.
type journal struct {
	fault  fault
	writes atomic.Int64
	log    struct {
		sync.Mutex
		lines []string
	}
}

func (j *journal) note(format string, args ...any) {
	j.log.Lock()
	defer j.log.Unlock()
	j.log.lines = append(j.log.lines, fmt.Sprintf(format, args...))
}

// write calls send, which returns a result for the log. It returns errGone if die was called instead of send, or
// after it.
func (j *journal) write(die func(), what string, send func() string) error {
	number := int(j.writes.Add(1))
	dies := number == j.fault.write
	if dies && !j.fault.lost {
		die()
		j.note("ends before %d: %s", number, what)
		return errGone
	}
	j.note("%d: %s: %s", number, what, send())
	if dies {
		die()
		j.note("ends after %d", number)
		return errGone
	}
	return nil
}

// roundTrip sends a request, which is a write unless its method is GET.
func (j *journal) roundTrip(die func(), r *http.Request) (response *http.Response, err error) {
	if r.Method == http.MethodGet {
		return http.DefaultTransport.RoundTrip(r)
	}
	gone := j.write(die, r.Method+" "+r.URL.Path, func() string {
		if response, err = http.DefaultTransport.RoundTrip(r); err != nil {
			return err.Error()
		}
		return response.Status
	})
	if gone == nil {
		return response, err
	}
	if response != nil {
		_ = response.Body.Close()
	}
	return nil, gone
}
