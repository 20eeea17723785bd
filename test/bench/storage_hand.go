// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/test/harness"
)

// rsyncPort is the port of the rsync daemon in the pods that copy without the product.
const rsyncPort = 8730

// handCommand copies the volume of the pod that runs it to the rsync daemon of the pod in the other cluster. Its flags
// are those with which the mover runs rsync, but it uses no TLS and does not compare the copies.
const handCommand = "rsync --archive --hard-links --acls --xattrs --sparse --numeric-ids " +
	"--delete-before --modify-window=-1 --inplace /data/ rsync://%s:%d/data/"

// daemonConfig makes the rsync daemon write to the volume as root.
const daemonConfig = `use chroot = no
munge symlinks = no
[data]
path = /data
read only = no
uid = 0
gid = 0
`

// handPod returns the name of the pod that copies by rsync, without the product: on the provider if remote is true,
// otherwise on the consumer. Its claim and its Service have the same name.
func handPod(remote bool) string {
	if remote {
		return "hand-milan"
	}
	return "hand-rome"
}

// createHands creates a pod in each cluster that mounts a volume and runs an rsync daemon.
func (b *bench) createHands(ctx context.Context) error {
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "hand"}, Data: map[string]string{"rsyncd.conf": daemonConfig},
	}
	_, err := b.rome.Kube.CoreV1().ConfigMaps(storing).Create(ctx, config, metav1.CreateOptions{})
	if unless(apierrors.IsAlreadyExists, err) != nil {
		return err
	}
	version, err := b.playground.ImageVersion()
	if err != nil {
		return err
	}
	for _, remote := range []bool{false, true} {
		name := handPod(remote)
		claim := claimOf(name, virtualClass, "", "8Gi")
		claims := b.rome.Kube.CoreV1().PersistentVolumeClaims(storing)
		if _, err := claims.Create(ctx, &claim, metav1.CreateOptions{}); err != nil {
			return err
		}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Port: rsyncPort}},
		}}
		if _, err := b.rome.Kube.CoreV1().Services(storing).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return err
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: service.Spec.Selector}, Spec: mounting(name, where(remote)),
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: config.Name}},
		}})
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: "rsync", Image: "liqo.io/federation-mover:" + version, ImagePullPolicy: corev1.PullNever,
			Command: []string{
				"rsync", "--daemon", "--no-detach", "--config=/etc/hand/rsyncd.conf", fmt.Sprintf("--port=%d", rsyncPort),
			},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "data", MountPath: "/data"}, {Name: "config", MountPath: "/etc/hand"},
			},
		})
		if _, err := b.rome.Kube.CoreV1().Pods(storing).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := b.podReady(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// deleteHands deletes the pods, Services and claims that createHands created, and not the ConfigMap.
func (b *bench) deleteHands(ctx context.Context) error {
	for _, remote := range []bool{false, true} {
		name := handPod(remote)
		objects := []string{"pod/" + name, "service/" + name, "pvc/" + name}
		args := append([]string{"delete", "-n", storing, "--timeout=110s"}, objects...)
		if err := b.rome.Kubectl(ctx, args...).Err; err != nil {
			return err
		}
	}
	return nil
}

// podReady waits until a pod in the namespace storing is Ready.
func (b *bench) podReady(ctx context.Context, name string) error {
	return harness.Eventually(ctx, patience, "pod "+name+" to be Ready", func(ctx context.Context) (bool, string, error) {
		pod, err := b.rome.Kube.CoreV1().Pods(storing).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return isReady(pod) && pod.DeletionTimestamp.IsZero(), fmt.Sprint(pod.Status), nil
	})
}

// copyByHand empties the volume in the target cluster, copies the volume of the other cluster to it
// with rsync, and returns the duration of the copy.
func (b *bench) copyByHand(ctx context.Context, toRemote bool) (time.Duration, error) {
	source, target := handPod(!toRemote), handPod(toRemote)
	if err := b.shell(ctx, target, "rm -rf /data/*"); err != nil {
		return 0, err
	}
	unix.Sync()
	command := fmt.Sprintf(handCommand, target, rsyncPort)
	started := time.Now()
	args := append([]string{"exec", "-n", storing, source, "-c", "rsync", "--"}, strings.Fields(command)...)
	if err := b.rome.Kubectl(ctx, args...).Err; err != nil {
		return 0, err
	}
	return time.Since(started), nil
}
