// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// maxLogBytes and maxLogLines bound the part of a mover's log that is read, in bytes and lines.
const (
	maxLogBytes = 32 << 10
	maxLogLines = 16
)

// Mover selects the image of the pods that copy the data of a move.
type Mover struct {
	// Image is the image of the movers. If it is empty, moves of volumes fail.
	Image string
	// PullPolicy is the imagePullPolicy of the movers.
	PullPolicy string
}

// AddFlags binds the options to flags.
func (m *Mover) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&m.Image, "mover-image", m.Image,
		"Image of the pods that copy the data when a volume is moved. If empty, moves fail.")
	fs.StringVar(&m.PullPolicy, "mover-image-pull-policy", m.PullPolicy,
		"imagePullPolicy of the pods that copy the data of a volume: Always, IfNotPresent or Never.")
}

// Validate returns an error for each invalid option.
func (m *Mover) Validate() []error {
	var errs []error
	policies := []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}
	if !slices.Contains(policies, corev1.PullPolicy(m.PullPolicy)) {
		errs = append(errs, fmt.Errorf("--mover-image-pull-policy %q: must be one of %v", m.PullPolicy, policies))
	}
	if strings.ContainsAny(m.Image, " \t\n") {
		errs = append(errs, errors.New("--mover-image: must not contain spaces"))
	}
	return errs
}

// Logs returns a function that reads the last maxLogLines lines of a mover's log, at most maxLogBytes bytes.
func Logs(kube kubernetes.Interface) func(context.Context, types.NamespacedName) (string, error) {
	return func(ctx context.Context, pod types.NamespacedName) (string, error) {
		stream, err := kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
			TailLines: ptr.To[int64](maxLogLines), LimitBytes: ptr.To[int64](maxLogBytes),
		}).Stream(ctx)
		if err != nil {
			return "", fmt.Errorf("reading the log of pod %s: %w", pod, err)
		}
		defer func() { _ = stream.Close() }()
		log, err := io.ReadAll(io.LimitReader(stream, maxLogBytes))
		if err != nil {
			return "", fmt.Errorf("reading the log of pod %s: %w", pod, err)
		}
		return string(log), nil
	}
}
