// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Request is what the audit log of a kube-apiserver tells of a request.
type Request struct {
	// Cluster is the name of the cluster that was asked.
	Cluster string
	// Received is when the request came in.
	Received time.Time
	// User is who asked, and Groups are theirs.
	User   string
	Groups []string
	// Verb and Resource are what was asked, the latter as "resource" or
	// "resource/subresource".
	Verb, Resource string
}

// Requests reads what the cluster was asked from its audit log, which an
// instance keeps that was brought up with --audit: every request for a
// resource, also those that the aggregator passes on, but for watches and for
// what this program asks itself.
func (c *Cluster) Requests(ctx context.Context) ([]Request, error) {
	path, err := c.auditLog(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.flushed(ctx, path); err != nil {
		return nil, err
	}
	return readAudit(path, c.Name)
}

func (c *Cluster) auditLog(ctx context.Context) (string, error) {
	nodes, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "node-role.kubernetes.io/control-plane"})
	if err != nil {
		return "", err
	}
	if len(nodes.Items) != 1 {
		return "", fmt.Errorf("cluster %s has %d control plane nodes, want 1", c.Name, len(nodes.Items))
	}
	return filepath.Join(c.playground.Dir(), "logs", nodes.Items[0].Name, "audit.log"), nil
}

// flushed waits until a request that was just sent is in the audit log: then
// all before it are.
func (c *Cluster) flushed(ctx context.Context, path string) error {
	mark := string(uuid.NewUUID())
	if err := c.Kube.Discovery().RESTClient().Get().AbsPath("/version").Param("mark", mark).Do(ctx).Error(); err != nil {
		return err
	}
	return Eventually(ctx, time.Minute, "the audit log "+path+" to be written", func(context.Context) (bool, string, error) {
		found, err := endsWith(path, mark)
		return found, "not yet", err
	})
}

// endsWith looks for mark near the end of a file that grows.
func endsWith(path, mark string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	const near = 1 << 20
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if _, err := f.Seek(max(0, info.Size()-near), io.SeekStart); err != nil {
		return false, err
	}
	tail, err := io.ReadAll(f)
	return bytes.Contains(tail, []byte(mark)), err
}

func readAudit(path, cluster string) ([]Request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var requests []Request
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// What follows the last line end is still being written.
			return requests, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		r, counts, err := parseAudit(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if counts {
			r.Cluster = cluster
			requests = append(requests, r)
		}
	}
}

// auditEvent is the part of an audit.k8s.io/v1 Event that is read.
type auditEvent struct {
	Stage     string
	Verb      string
	UserAgent string
	User      struct {
		Username string
		Groups   []string
	}
	ObjectRef *struct{ Resource, Subresource string }
	Received  metav1.MicroTime `json:"requestReceivedTimestamp"`
}

func parseAudit(line []byte) (Request, bool, error) {
	var event auditEvent
	if err := json.Unmarshal(line, &event); err != nil {
		return Request{}, false, fmt.Errorf("audit event: %w", err)
	}
	driver := filepath.Base(os.Args[0]) + "/"
	if event.Stage != "ResponseComplete" || event.Verb == "watch" || event.ObjectRef == nil || strings.HasPrefix(event.UserAgent, driver) {
		return Request{}, false, nil
	}
	resource := event.ObjectRef.Resource
	if event.ObjectRef.Subresource != "" {
		resource += "/" + event.ObjectRef.Subresource
	}
	return Request{Received: event.Received.Time, User: event.User.Username, Groups: event.User.Groups, Verb: event.Verb, Resource: resource}, true, nil
}
