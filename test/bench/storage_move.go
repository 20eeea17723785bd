// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// moving is the name of the StatefulSet whose volume is moved. It has one pod and one claim.
	moving      = "moving"
	movingPod   = moving + "-0"
	movingClaim = "data-" + movingPod
	// movePatience is the maximal duration of one move.
	movePatience = 10 * time.Minute
)

// content describes the files on a moved volume.
type content struct {
	name string
	// bytes is the total size of the files, and files is their number.
	bytes, files int64
	// fill is a script that creates the files in /data, and change is a script that overwrites one
	// hundredth of their data. change reads the number of the run from the variable RUN, so that
	// each run writes other data.
	fill, change string
}

var contents = []content{
	{
		"2 GB in 8 files", 8 * 256 << 20, 8,
		"for f in 1 2 3 4 5 6 7 8; do dd if=/dev/urandom of=/data/$f bs=1M count=256 2>/dev/null; done; sync",
		"for f in 1 2 3 4 5 6 7 8; do " +
			"dd if=/dev/urandom of=/data/$f bs=64k count=41 seek=$((RUN * 500)) conv=notrunc 2>/dev/null; done",
	},
	{
		"100,000 files of 4 KiB", 100_000 * 4 << 10, 100_000,
		"for d in $(seq 100); do mkdir /data/$d; i=0; " +
			"while [ $i -lt 1000 ]; do printf %04096d $i >/data/$d/$i; i=$((i+1)); done; done; sync",
		"for d in $(seq 100); do i=0; " +
			"while [ $i -lt 10 ]; do printf %04096d $((i+1000*RUN+1000)) >/data/$d/$i; i=$((i+1)); done; done",
	},
}

// moveSample has the times of one move, and of the copy by rsync that it is compared with.
type moveSample struct {
	content  string
	toRemote bool
	// byHand is the duration of the copy of the same data in the same direction by rsync.
	byHand time.Duration
	// phases are the times at which each phase began. requested is the time of the request, and
	// firstPass the time at which the status reported the end of the first pass.
	phases               map[v1alpha1.MovePhase]time.Time
	requested, firstPass time.Time
	// downtime is status.move.downtimeMilliseconds.
	downtime time.Duration
	// pod has the times of the restart of the application's pod during the move.
	pod podRestart
}

// copying returns the duration of the first pass, including the start of the sender.
func (s moveSample) copying() time.Duration { return s.firstPass.Sub(s.phases[v1alpha1.MoveCopying]) }

// whole returns the duration of the move without the time in which the PodDisruptionBudget
// prevented the eviction.
func (s moveSample) whole() time.Duration {
	return s.phases[v1alpha1.MoveQuiescing].Sub(s.requested) + s.phases[v1alpha1.MoveSucceeded].Sub(s.pod.terminating)
}

// restarts has the times of restarts of the pod in each cluster without a move.
type restarts struct{ local, remote []podRestart }

// measureMoves moves each content in both directions. Before each move it copies the same data in
// the same direction with rsync.
func (b *bench) measureMoves(ctx context.Context) ([]storageRow, error) {
	var samples []moveSample
	var baseline restarts
	for _, content := range contents {
		measured, err := b.movesOf(ctx, content, &baseline)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", content.name, err)
		}
		samples = append(samples, measured...)
	}
	return moveRows(contents, samples, baseline), nil
}

func (b *bench) movesOf(ctx context.Context, content content, baseline *restarts) (samples []moveSample, err error) {
	defer func() {
		// The context of the run may be cancelled.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = errors.Join(err, b.deleteHands(ctx),
			b.rome.Kubectl(ctx, "delete", "-n", storing, "--timeout=110s", "statefulset/"+moving).Err,
			b.rome.Kubectl(ctx, "delete", "-n", storing, "--timeout=110s", "pvc/"+movingClaim).Err)
	}()
	if err := b.createHands(ctx); err != nil {
		return nil, err
	}
	set := statefulSet(moving, 1, virtualClass, nil)
	if _, err := b.rome.Kube.AppsV1().StatefulSets(storing).Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if err := b.podReady(ctx, movingPod); err != nil {
		return nil, err
	}
	for _, pod := range []string{movingPod, handPod(false), handPod(true)} {
		if err := b.shell(ctx, pod, content.fill); err != nil {
			return nil, err
		}
	}
	for run := range b.options.runs {
		pod, err := b.rome.Kube.CoreV1().Pods(storing).Get(ctx, movingPod, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		remote := pod.Spec.NodeName == virtual
		restarted, err := b.restartPod(ctx)
		if err != nil {
			return nil, err
		}
		if remote {
			baseline.remote = append(baseline.remote, restarted)
		} else {
			baseline.local = append(baseline.local, restarted)
		}
		byHand, err := b.copyByHand(ctx, !remote)
		if err != nil {
			return nil, err
		}
		s, err := b.moveOnce(ctx, content, run, !remote)
		if err != nil {
			return nil, err
		}
		s.byHand = byHand
		fmt.Fprintf(os.Stderr, "%s, run %d, to provider %t: by hand %s; move: first pass %s, whole %s, downtime %s, "+
			"pod stopped in %s, back after %s; %s\n",
			content.name, run+1, s.toRemote, s.byHand.Round(time.Millisecond), s.copying().Round(time.Millisecond),
			s.whole().Round(time.Millisecond), s.downtime, s.pod.stop().Round(time.Millisecond),
			s.pod.outage().Round(time.Millisecond), s.phaseTimes())
		samples = append(samples, s)
	}
	last, err := b.restartPod(ctx)
	if err != nil {
		return nil, err
	}
	if samples[len(samples)-1].toRemote {
		baseline.remote = append(baseline.remote, last)
	} else {
		baseline.local = append(baseline.local, last)
	}
	return samples, nil
}

// statefulSet returns a StatefulSet. Each of its pods mounts a claim of the class; an empty class
// mounts none.
func statefulSet(name string, replicas int32, class string, selector map[string]string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(replicas), ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: mounting("", selector)},
		},
	}
	if class != "" {
		set.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claimOf("data", class, "", "64Mi")}
	}
	return set
}

// moveOnce moves the volume online. A PodDisruptionBudget prevents the eviction of the pod until
// the first passes have ended and the pod has overwritten one hundredth of the data, so that the
// last pass has changes to copy.
func (b *bench) moveOnce(ctx context.Context, content content, run int, toRemote bool) (moveSample, error) {
	ctx, cancel := context.WithTimeout(ctx, movePatience)
	defer cancel()
	s := moveSample{content: content.name, toRemote: toRemote, phases: map[v1alpha1.MovePhase]time.Time{}}
	budgets := b.rome.Kube.PolicyV1().PodDisruptionBudgets(storing)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: moving},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(0)),
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": moving}},
		}}
	if _, err := budgets.Create(ctx, budget, metav1.CreateOptions{}); err != nil {
		return s, err
	}
	log, stop, err := b.watchRestart(ctx)
	if err != nil {
		return s, err
	}
	defer stop()
	volumes := b.rome.Federation.FederationV1alpha1().VirtualVolumes(storing)
	target := v1alpha1.MoveTarget{Local: true}
	if toRemote {
		target = v1alpha1.MoveTarget{ClusterName: b.milan.Name}
	}
	unix.Sync()
	s.requested = time.Now()
	requested, err := volumes.CreateMove(ctx, movingClaim, &v1alpha1.Move{Spec: v1alpha1.MoveSpec{
		Target: target, Strategy: v1alpha1.MoveOnline, Verify: v1alpha1.VerifyChanged,
	}}, metav1.CreateOptions{})
	if err != nil {
		return s, err
	}
	watcher, err := volumes.Watch(ctx, named(movingClaim))
	if err != nil {
		return s, err
	}
	_, err = watchtools.UntilWithoutRetry(ctx, watcher, func(event watch.Event) (bool, error) {
		volume, ok := event.Object.(*v1alpha1.VirtualVolume)
		if !ok || volume.Status.Move == nil || volume.Spec.Move == nil || volume.Status.Move.ID != volume.Spec.Move.ID {
			return false, nil
		}
		progress := volume.Status.Move
		first(&s.firstPass, time.Now(), progress.Passes > 0)
		if _, known := s.phases[progress.Phase]; known {
			return false, nil
		}
		s.phases[progress.Phase] = time.Now()
		switch progress.Phase {
		case v1alpha1.MoveQuiescing:
			if err := b.shell(ctx, movingPod, "RUN="+strconv.Itoa(run)+"; "+content.change); err != nil {
				return false, err
			}
			return false, budgets.Delete(ctx, moving, metav1.DeleteOptions{})
		case v1alpha1.MoveSucceeded:
			s.downtime = time.Duration(ptr.Deref(progress.DowntimeMilliseconds, 0)) * time.Millisecond
			return true, nil
		case v1alpha1.MoveRollingBack, v1alpha1.MoveFailed, v1alpha1.MoveCancelled:
			return false, fmt.Errorf("the move was undone: %s", progress.Message)
		}
		return false, nil
	})
	if err != nil {
		return s, fmt.Errorf("waiting for move %s: %w", requested.Name, err)
	}
	s.pod, err = log.wait(ctx)
	return s, err
}

// phaseTimes returns the duration of each phase as a text.
func (s moveSample) phaseTimes() string {
	text, last := "", s.requested
	lastName := "requested"
	for _, phase := range []v1alpha1.MovePhase{
		v1alpha1.MovePreparing, v1alpha1.MoveCopying, v1alpha1.MoveQuiescing, v1alpha1.MoveLocking, v1alpha1.MoveFinalCopy,
		v1alpha1.MoveSwitching, v1alpha1.MoveReleasing, v1alpha1.MoveCleaning, v1alpha1.MoveSucceeded,
	} {
		began, ok := s.phases[phase]
		if !ok {
			continue
		}
		text += fmt.Sprintf("%s %s ", lastName, began.Sub(last).Round(time.Millisecond))
		last, lastName = began, string(phase)
	}
	return text
}
