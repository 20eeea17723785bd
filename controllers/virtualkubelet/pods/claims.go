// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/controllers/virtualkubelet/translate"
)

// remoteClaims maps the names of the local claims that a pod uses to the names of the provider's claims for them. A
// claim that does not exist locally is omitted, because it may exist in the remote namespace only. Claims and volumes
// are read from the API server, as a kubelet does: a volume that was just moved must not be mounted at its old
// location. It fails with a translate.VolumeError if the pod cannot use a claim on the provider.
func (c *Controller) remoteClaims(
	ctx context.Context,
	pod *corev1.Pod,
	remoteNamespace string,
) (map[string]string, error) {
	var remote map[string]string
	for _, used := range translate.UsedClaims(pod) {
		claim, err := c.Local.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, used.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) && !used.Ephemeral:
			continue
		case apierrors.IsNotFound(err):
			return nil, notBound("the claim %s of an ephemeral volume does not exist yet", used.Name)
		case err != nil:
			return nil, fmt.Errorf("reading claim %s: %w", used.Name, err)
		}
		name, err := translate.BoundVolume(pod, used, claim)
		if err != nil {
			return nil, err
		}
		volume, err := c.Local.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, notBound("the volume %s of claim %s does not exist any more", name, used.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the volume of claim %s: %w", used.Name, err)
		}
		if name, err = translate.RemoteClaim(claim, volume, c.To.DestinationID, remoteNamespace); err != nil {
			return nil, err
		}
		if remote == nil {
			remote = map[string]string{}
		}
		remote[used.Name] = name
	}
	return remote, nil
}

func notBound(format string, args ...any) error {
	return &translate.VolumeError{Reason: translate.ReasonVolumeNotBound, Message: fmt.Sprintf(format, args...)}
}

// awaitClaims writes a translate.VolumeError to the status of a pod, as the reason why the pod waits. It always returns
// an error, so that the pod is retried with backoff.
func (c *Controller) awaitClaims(ctx context.Context, pod *corev1.Pod, err error) error {
	err = fmt.Errorf("finding the claims of the pod on %s: %w", c.Provider, err)
	var unusable *translate.VolumeError
	if !errors.As(err, &unusable) {
		return err
	}
	return errors.Join(err, c.refuse(ctx, pod, unusable.Reason, unusable.Message))
}
